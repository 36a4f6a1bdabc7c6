import { describe } from '@jest/globals';
import { testAgent } from './timeline.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';

/** The first two apiservers die, kube-proxy forgets them, and the last one that it knows dies too. */
const loseAll = 'm1 m2 refusing; wait 20000; proxy m3; wait 5000; m3 refusing; wait 10000; targets m3;';

const startAnew = 'kill; start; wait 10000';

describe('when every apiserver that is listed is dead', () => {
  testAgent({
    'one that was listed before gets the connections as soon as it lives again, for kube-proxy hears of it through us':
      `${loseAll} m2 healthy; wait 5000; targets m2;` +
      'proxy m2 m3; wait 5000; targets m2; m3 healthy; wait 10000; targets proxy',
    'one that was listed before is asked for nothing while another one lives':
      'proxy m2 m3; wait 5000; m2 refusing; wait 5000; targets m3; health m2 dead, m3 ready',
    'one that was listed before does, also for an agent that was started since': `proxy m2 m3; wait 5000; stop; m2 m3 refusing; ${startAnew}; targets m1`,
    'what an earlier agent has saved counts as listed before': `stop; proxy m3; m2 m3 refusing; ${startAnew}; targets m1`,
  });

  testAgent(
    {
      'one that --endpoints names does, also for an agent that never saw it listed':
        'before; proxy m3; start; wait 2000; m3 refusing; wait 5000; targets m1',
    },
    { config: { endpoints: [toEndpoint('10.77.0.11:6443')] } },
  );
});

describe.each(['ailing', 'frozen'])('when every apiserver that is listed is %s', (behaviour) => {
  /** kube-proxy lists the last one alone. */
  const withOne = 'proxy m3; wait 5000;';
  testAgent({
    'those that were listed before get the connections, and it has them back as soon as it does well':
      `${withOne} m3 ${behaviour}; wait 25000; targets m1 m2; wait 120000; targets m1 m2;` +
      'm3 healthy; wait 20000; targets proxy',
    'those that were listed before and do no better get none, until the first of them does well':
      `${withOne} m1 m2 m3 ${behaviour}; wait 60000; targets proxy; watched m1 m2 m3;` +
      'm2 healthy; wait 60000; targets m2',
    'those that were listed before and are dead get none': `${withOne} m1 m2 refusing; m3 ${behaviour}; wait 60000; targets proxy`,
  });
});
