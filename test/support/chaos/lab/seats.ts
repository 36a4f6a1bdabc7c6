import { apiserverPort } from '../../network/layout.ts';
import { judgeTraffic } from '../world/judge.ts';
import { type ControlPlane, masterNames } from './control-plane.ts';
import { type Knowledge, listHolders } from './knowledge.ts';
import { isReachable } from './masters.ts';

/** A place from which the VIP is asked for, and the master whose agent decides who answers. */
interface Place {
  readonly name: string;
  readonly decider: string;
}

/** Of 48 choices at random one of three is left out once in 100 million times. */
const amount = { atOnce: 8, most: 48 };

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
  const seat = plane.lab.seat(name, 'chaos');
  const allowed = plane.usable(decider);
  const asker = {
    name: `${name} to ${plane.lab.vip} (known to ${decider}: ${known.join(', ') || 'none'})`,
    ask: (count: number) => seat.request(plane.lab.vip, apiserverPort, count, limitMs),
    expect: () => ({ allowed, required: allowed.filter((master) => known.includes(master)) }),
  };
  return judgeTraffic(asker, amount);
}
