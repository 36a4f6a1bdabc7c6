import { expect, test } from '@jest/globals';
import { parseCommandLine } from '../../../../cli/grammar/command-line.ts';

const example = 'Example: vipnat services default/web';

test.each([
  [[], { service: null, namespace: 'vipnat-system', json: false, watchMs: null }, []],
  [['shop/web', '--json'], { service: { namespace: 'shop', name: 'web' }, json: true }, []],
  [['--watch', '--namespace', 'lb'], { watchMs: 2000, namespace: 'lb' }, []],
  [['--watch=5'], { watchMs: 5000 }, []],
  [['web'], { service: null }, [`web is not NAMESPACE/NAME. ${example}`]],
  [['shop/Web'], {}, [`shop/Web is not NAMESPACE/NAME. ${example}`]],
  [['a/b/c'], {}, [`a/b/c is not NAMESPACE/NAME. ${example}`]],
  [['shop/web', 'more'], {}, ['more is one word too many. See vipnat services --help']],
  [['shop/web', '--jsno'], {}, ['--jsno is not an option of services. Did you mean --json?']],
])('the command line of services says which: %j', (words, options, problems) => {
  expect(parseCommandLine(['services', ...words], '1.2.3')).toMatchObject({
    command: { name: 'services', options },
    problems,
  });
});
