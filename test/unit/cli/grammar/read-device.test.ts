import { expect, test } from '@jest/globals';
import { parseCommandLine } from '../../../../cli/grammar/command-line.ts';

const file = ['--device', 'device.yaml'];

test.each([
  [['state', ...file], { action: 'state', device: 'device.yaml', driver: null, json: false }, []],
  [['list', ...file, '--driver', './d.mjs', '--json'], { driver: './d.mjs', json: true }, []],
  [['plan', ...file, '--balancer', 'web.yaml'], { action: 'plan', balancer: 'web.yaml' }, []],
  [
    ['conformance', ...file, '--only', 'udp', '--only', 'ipv6', '--ports', '1,2,3', '--remove-leftovers'],
    { only: ['udp', 'ipv6'], ports: [1, 2, 3], takesLeftovers: true },
    [],
  ],
  [
    [],
    {},
    [
      'device needs what to do: configuration, conformance, list, plan, state. Example: vipnat device state --device device.yaml',
    ],
  ],
  [
    ['paln', ...file],
    {},
    [
      'paln is none of configuration, conformance, list, plan, state. Example: vipnat device plan --device device.yaml',
    ],
  ],
  [['configuration', ...file, '--unit', '2'], { action: 'configuration', unit: 2 }, []],
  [['configuration', ...file, '--unit', '0'], {}, ['--unit 0 is neither 1 nor 2. Example: --unit 1']],
  [['list'], {}, ['no device given. Example: --device device.yaml']],
  [['list', 'edge', ...file], {}, ['edge is one word too many. See vipnat device --help']],
  [['plan', ...file], {}, ['plan needs the wanted balancer. Example: --balancer web.yaml']],
  [
    ['list', ...file, '--balancer', 'web.yaml', '--remove-leftovers'],
    {},
    [
      '--balancer is for vipnat device plan only. Leave it out',
      '--remove-leftovers is for vipnat device conformance only. Leave it out',
    ],
  ],
  [
    ['conformance', ...file, '--ports', '80,81,80'],
    {},
    ['--ports 80,81,80 is not three different ports or more. Example: --ports 8080,8081,8443'],
  ],
  [['state', ...file, '--drivr', 'x'], {}, ['--drivr is not an option of device. Did you mean --driver?']],
])('the command line of device says what to do: %j', (words, options, problems) => {
  expect(parseCommandLine(['device', ...words], '1.2.3')).toMatchObject({
    kind: 'device',
    options,
    problems,
  });
});
