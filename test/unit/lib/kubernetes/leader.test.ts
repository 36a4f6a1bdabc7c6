import { expect } from '@jest/globals';
import { LeaderElection } from '../../../../lib/kubernetes/leader.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { LeaseApi, type Trip } from '../../../support/fakes/lease-api.ts';
import { type Steps, testSteps, toChecks } from '../../steps.ts';

/** `noted=1 other=stays` */
const readNotes = (texts: readonly string[]) =>
  Object.fromEntries(texts.map((text) => text.split('=') as [string, string]));

/** Processes that come and go, over one Lease. */
function createSteps(): Steps {
  const clock = new FakeClock();
  const api = new LeaseApi(clock);
  const told: string[] = [];
  const elections = new Map<string, LeaderElection>();
  let trip: Trip = { thereMs: 1, backMs: 1 };
  const begin = (identity: string, annotations: Readonly<Record<string, string>>) => {
    const tell = (detail: string) => () => told.push(`${clock.now()} ${identity} ${detail}`);
    const election = new LeaderElection({
      ...{ client: api.connect(() => trip), clock, random: () => 1, identity },
      lease: { namespace: 'vipnat', name: 'controller' },
      ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
      ...{ onElected: tell('leads'), onLost: tell('leads no more') },
      onLeader: (leader) => void tell(`hears of ${leader}`)(),
      onProblem: ({ detail }) => void tell(detail)(),
    });
    election.start();
    elections.set(identity, election);
  };
  return {
    begin: (text) => {
      const [identity = '', ...notes] = text.split(' ');
      begin(identity, readNotes(notes));
    },
    wait: (ms) => clock.advance(Number(ms)),
    stop: (identity) => void elections.get(identity)?.stop(),
    /** `trip 1 lost`: requests arrive after 1 ms, and answers never. */
    trip: (text) => {
      const [there, back] = text.split(' ');
      trip = { thereMs: Number(there), backMs: back === 'lost' ? null : Number(back) };
    },
    remove: api.remove.bind(api),
    /** Writes another name into the Lease. */
    usurp: (holderIdentity) => {
      const body = { metadata: { resourceVersion: '1' }, spec: { holderIdentity } };
      void api.connect(() => trip).write({ title: '', method: 'PATCH', path: '', body }, 1000);
    },
    annotate: (text) => {
      api.annotate(readNotes(text.split(' ')));
    },
    ...toChecks({
      notes: (text) => [api.annotations, readNotes(text.split(' '))],
      /** For how long each may write, and whom it knows to lead: `4000 by a, 0 by a`. */
      may: (text) => {
        const seen = [...elections.values()].map(({ writeMs, leader }) => `${writeMs} by ${leader}`);
        return [seen.join(', '), text];
      },
      lease: (json) => [api.spec, expect.objectContaining(JSON.parse(json) as object)],
      told: (pattern) => [told.join(', '), expect.stringMatching(new RegExp(`^${pattern}$`))],
      losses: (count) => [told.filter((detail) => detail.endsWith('leads no more')).length, Number(count)],
    }),
  };
}

testSteps(createSteps, {
  'the first creates the Lease and leads; the second hears of it':
    'begin a; wait 1000; begin b; wait 60000; told 4 a leads, 1002 b hears of a; may 4000 by a, 0 by a; ' +
    'lease {"holderIdentity":"a","leaseDurationSeconds":15,"leaseTransitions":0,"acquireTime":"2026-01-01T00:00:00.002000Z"}',
  'who leads notes what it is told on the Lease, and that stays when it leads no more':
    'begin a noted=1; wait 1000; notes noted=1; annotate noted=otherwise other=stays; wait 5000; ' +
    'notes noted=1 other=stays; stop a; wait 100; notes noted=1 other=stays; begin b noted=2; wait 5000; ' +
    'notes noted=2 other=stays',
  'who stops gives it back, and the other leads at its next look':
    'begin a; wait 1000; begin b; wait 10000; stop a; wait 2400; lease {"holderIdentity":"b","leaseTransitions":1}; ' +
    String.raw`told 4 a leads, 1002 b hears of a, 1[123]\d\d\d b leads`,
  'whose renewals do not arrive begins no write after 10 s, and leads again when they do':
    'begin a; wait 8000; trip 1 lost; wait 7500; may 4000 by a; wait 1500; may 0 by a; losses 1; trip 1 1; ' +
    'wait 12000; may 4000 by a; told .* a leads',
  'another waits for 15 s since it last saw a renewal, whatever the dates say':
    'begin a; wait 1000; begin b; wait 10000; trip 60000 1; wait 2100; may 4000 by a, 0 by a; trip 1 1; stop a; ' +
    'wait 60000; may 0 by a, 4000 by b',
  'a deleted Lease is created anew by its holder, and not by another for 15 s':
    'begin a; wait 1000; begin b; wait 5500; remove; wait 60000; told 4 a leads, 1002 b hears of a; ' +
    'may 4000 by a, 0 by a',
  'the name of another in the Lease ends leading at once':
    'begin a; wait 1000; usurp x; wait 2000; may 0 by x; ' +
    String.raw`told 4 a leads, \d+ a hears of x, \d+ a leads no more`,
});
