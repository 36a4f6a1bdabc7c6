import { describe, test, expect } from '@jest/globals';
import { helpTopics } from '../../../../cli/command.ts';
import { topicToList } from '../../../../cli/commands/help.ts';
import { runHere } from '../../../support/documents/call.ts';

const ask = async (word: string, environment = {}) => {
  const { exitCode, stdout, stderr } = await runHere(['help', word], environment);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  return stdout;
};

const listHeads = (text: string) =>
  text.split('\n').flatMap((line) => /^(\S.*?)(?: \([^(]*\))?$/.exec(line)?.[1] ?? []);

describe.each([...helpTopics])('help %s', (topic) => {
  test('prints every entry in the order of its catalogue, within 80 columns or those of the terminal', async () => {
    const names = (await topicToList[topic]()).map(({ name }) => name);
    expect(names.length).toBeGreaterThan(15);
    for (const width of [80, 60]) {
      const text = await ask(topic, { COLUMNS: String(width) });
      const heads = listHeads(text);
      expect(heads.slice(0, names.length)).toEqual(names);
      expect(heads.slice(names.length)).toEqual(
        topic === 'doctor' ? ['Options of the command: vipnat doctor --help'] : [],
      );
      // A name, and a command in a text, are for pasting.
      const long = text.split('\n').filter((line) => line.length > width && / {2}.* /.test(line));
      expect(long.filter((line) => !/^ {2}Example: /.test(line))).toEqual([]);
      expect(text).not.toContain('`');
    }
  });
});

test.each([
  ['API_FORBIDDEN', /^API_FORBIDDEN\n {2}The API .*403.*docs\/reference\.md/s],
  ['config-invalid', /^CONFIG_INVALID \(exit status 78, not tried again\)\n/],
  ['vrid-clash', /^vrid-clash \(fail\)\n {2}Another host/],
  ['RulesRepaired', /^RulesRepaired \(Warning, Repair\)\n {2}Another program/],
  ['vipnat_waiting', /^vipnat_waiting \(gauge\)\n {2}Whether .*\n {2}If it stays 1/s],
  ['vipnat_controller_leading', /^vipnat_controller_leading \(gauge\)\n/],
  ['vipnat_balancer_programming_duration_seconds', /^\S+ \(histogram\)\n/],
  ['proxyMode', /^--proxy-mode MODE \(VIPNAT_PROXY_MODE, proxyMode\)\n {2}kube-proxy's .*One of\s+auto /],
  ['VIPNAT_PROXY_MODE', /^--proxy-mode MODE /],
  ['nodevice', /^NoDevice \(AddressReady of a Service\)\n {2}Create /],
  ['AddressInUse', /^AddressInUse \(Warning, .*^AddressInUse \(AddressReady .*^AddressInUse \(Announced /ms],
])('help %s prints what has this name, and nothing else', async (name, words) => {
  const text = await ask(name);
  expect(text).toMatch(words);
  const plain = (one: string) => one.toLowerCase().replaceAll(/[-_]|^vipnat| .*/g, '');
  expect(new Set(listHeads(text).map((head) => plain(head.replace(/^--/, ''))))).toEqual(
    new Set([plain(name)]),
  );
});

test.each([
  ['sttus', 'Did you mean status?'],
  ['eror', 'Did you mean errors?'],
  ['API_UNREACHBLE', 'Did you mean API_UNREACHABLE?'],
  ['track-file-stael', 'Did you mean track-file-stale?'],
  ['nothing-of-all', 'Topics: errors, doctor, events, metrics, options, reasons'],
])('help %s, which nothing is called, names what is near', async (word, hint) => {
  expect(await runHere(['help', word])).toEqual({
    ...{ exitCode: 78, stdout: '' },
    stderr: `vipnat: [CONFIG_INVALID] ${word} is nothing that help knows. ${hint}\n`,
  });
});
