import { apiserverPort } from '../../network/layout.ts';
import { type RequestReport } from '../../network/seat.ts';
import { type ControlPlane, masterNames } from './control-plane.ts';
import { type Knowledge, listHolders } from './knowledge.ts';
import { isReachable } from './masters.ts';

/** A place from which the VIP is asked for, and the master whose agent decides who answers. */
interface Place {
  readonly name: string;
  readonly decider: string;
}

const requestCount = 8;

/** Of 48 choices at random one of three is left out once in 100 million times. */
const maxRequestCount = 48;

/** Both cores are busy, so slow is no failure. */
const limitMs = 5000;

/**
 * Asks for the VIP from everywhere: from outside, from the worker and the pods, from every master that is reached. Complains
 * of each place where a connection fails, one goes to an apiserver that is not usable, or a usable one that is known there gets none.
 */
export async function judgeSeats(plane: ControlPlane, knowledge: Knowledge): Promise<string[]> {
  const [holder] = await listHolders(plane);
  if (holder === undefined) return ['nobody who is reached holds the VIP'];
  const places = listPlaces(plane, holder);
  const deciders = [...new Set(places.map(({ decider }) => decider))];
  const known = new Map(
    await Promise.all(deciders.map(async (name) => [name, await knowledge.read(name)] as const)),
  );
  const complaints = await Promise.all(
    places.map((place) => judgePlace(plane, place, known.get(place.decider) ?? [])),
  );
  return complaints.flat();
}

function listPlaces(plane: ControlPlane, holder: string): Place[] {
  const onMasters = masterNames
    .filter((name) => isReachable(plane.master(name)))
    .flatMap((name) => [
      { name, decider: name },
      ...(name === 'm3' ? [] : [{ name: `pod-${name}`, decider: name }]),
    ]);
  const others = ['client', 'worker', 'pod-worker'].map((name) => ({ name, decider: holder }));
  return [...others, ...onMasters];
}

async function judgePlace(
  plane: ControlPlane,
  { name, decider }: Place,
  known: readonly string[],
): Promise<string[]> {
  const usable = plane.usable(decider);
  const due = usable.filter((master) => known.includes(master));
  const { answers, errors } = await ask(plane, name, due);
  const failed = Object.entries(errors).map(([error, count]) => `${count} failed (${error})`);
  const wrong = Object.entries(answers)
    .filter(([master]) => !usable.includes(master))
    .map(([master, count]) => `${count} went to ${master}`);
  const missing = due
    .filter((master) => answers[master] === undefined && failed.length === 0)
    .map((master) => `none went to ${master}`);
  const found = [...failed, ...wrong, ...missing];
  if (found.length === 0) return [];
  const told = `usable are ${usable.join(', ')}, known to ${decider} are ${known.join(', ') || 'none'}`;
  return [`from ${name} to the VIP: ${found.join(', ')}; ${told}`];
}

interface Answers {
  readonly answers: Record<string, number>;
  readonly errors: RequestReport['errors'];
}

/** Until everybody who is due has answered, or it is certain that somebody does not. */
async function ask({ lab }: ControlPlane, place: string, due: readonly string[]): Promise<Answers> {
  const answers: Record<string, number> = {};
  let sent = 0;
  for (;;) {
    const report = await lab.seat(place, 'chaos').request(lab.vip, apiserverPort, requestCount, limitMs);
    sent += requestCount;
    for (const [master, count] of Object.entries(report.apiservers)) {
      answers[master] = (answers[master] ?? 0) + count;
    }
    const isDone = due.every((master) => answers[master] !== undefined) || sent >= maxRequestCount;
    if (isDone || Object.keys(report.errors).length > 0) return { answers, errors: report.errors };
  }
}
