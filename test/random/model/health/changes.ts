import { type Behaviour } from '../../../support/fakes/apiserver.ts';
import { type HealthWorld } from './world.ts';

/** Three apiservers; the first is on the agent's own host. */
export const apiservers = ['10.0.0.11:6443', '10.0.0.12:6443', '10.0.0.13:6443'] as const;

export interface Change {
  readonly name: string;
  readonly run: (world: HealthWorld) => Promise<void> | void;
}

const behaviours: readonly Behaviour[] = [
  ...(['healthy', 'refusing', 'silent', 'clogged', 'frozen', 'slow'] as const),
  ...(['failing', 'ailing', 'ending', 'curt', 'hanging up'] as const),
];

/** Who is met: the local one, a distant one (they are all alike), two, or all. */
const groups: Readonly<Record<string, readonly string[]>> = {
  'the local one': apiservers.slice(0, 1),
  'a distant one': apiservers.slice(2),
  'two of them': apiservers.slice(1),
  'all of them': apiservers,
};

/** For an apiserver that turns to and fro, and a list that does. */
const flaps = 8;

export const changes: readonly Change[] = [
  ...Object.entries(groups).flatMap(([who, endpoints]) =>
    behaviours.map((behaviour) => ({
      name: `${who}: ${behaviour}`,
      run: (world: HealthWorld) => {
        world.set(endpoints, behaviour);
      },
    })),
  ),
  ...(['ailing', 'clogged', 'hanging up'] as const).map((behaviour) => ({
    name: `all of them: ${behaviour} and healthy by turns`,
    run: async (world: HealthWorld) => {
      for (let flap = 0; flap < flaps; flap += 1) {
        world.set(apiservers, flap % 2 === 0 ? behaviour : 'healthy');
        await world.pass(255);
      }
    },
  })),
  ...(['a distant one', 'all of them'] as const).flatMap((who) =>
    [true, false].map((isDrained) => ({
      name: `${who}: ${isDrained ? 'drained' : 'drained no longer'}`,
      run: (world: HealthWorld) => {
        world.drain(groups[who] ?? [], isDrained);
      },
    })),
  ),
  {
    name: 'the list flaps',
    run: async (world: HealthWorld) => {
      for (let flap = 0; flap < flaps; flap += 1) {
        world.list(apiservers.slice(0, 1));
        await world.pass(20);
        world.list(apiservers);
        await world.pass(20);
      }
    },
  },
  {
    name: 'one leaves the list',
    run: (world) => {
      world.list(apiservers.slice(0, 2));
    },
  },
];
