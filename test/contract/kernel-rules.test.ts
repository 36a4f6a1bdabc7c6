import { describeKernels, everything } from './kinds.ts';
import { toolName } from '../../lib/kernel/port.ts';
import { describe, test, expect } from '@jest/globals';
import { pairs } from '../support/jest/pairs.ts';
import { shapes, foreignRules } from './rule-shapes.ts';
import { watchChange, watchQuiet } from './watching.ts';
import { garbage } from './subject.ts';

describeKernels((subject) => {
  describe.each(pairs)('%s %s', (family, dialect) => {
    const query = { ...everything, families: [family], dialects: [dialect] };
    const run = (script: string) => subject().run(family, dialect, script);
    const show = async () => {
      const { iptables } = await subject().kernel.read(query);
      return withoutComments(iptables[0]?.text ?? 'nothing was read');
    };
    /** What a product does: reads, then writes. */
    const apply = async (input: string) => {
      await show();
      await subject().kernel.apply({ family, dialect, input });
    };

    test('a restore creates chains and hooks, and the next read prints them as iptables-save does', async () => {
      await apply(shapes(family, dialect).script);
      expect(await show()).toBe(shapes(family, dialect).printed);
    });

    test('writing the printed rules again prints the same', async () => {
      await apply(shapes(family, dialect).script);
      const printed = await show();
      await run(printed.replaceAll(/^-A (?:PREROUTING|INPUT|OUTPUT|POSTROUTING|FORWARD) .*\n/gm, ''));
      expect(await show()).toBe(printed);
    });

    test('a restore without --noflush semantics never happens: foreign rules keep content and order', async () => {
      await run(foreignRules);
      await apply(hookScript);
      expect(await show()).toBe(
        natTable(
          ['DOCKER', 'VIPNAT'],
          [
            '-A PREROUTING -m comment --comment "vipnat:a" -j VIPNAT',
            '-A PREROUTING -p udp -j RETURN',
            '-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER',
            '-A DOCKER -i docker0 -j RETURN',
          ],
        ),
      );
    });

    test('the second insert stands before the first', async () => {
      await apply('*nat\n:VIPNAT - [0:0]\n-I OUTPUT -p tcp -j VIPNAT\n-I OUTPUT -j VIPNAT\nCOMMIT\n');
      expect(await show()).toBe(natTable(['VIPNAT'], ['-A OUTPUT -j VIPNAT', '-A OUTPUT -p tcp -j VIPNAT']));
    });

    test('a chain that is declared again is emptied', async () => {
      await apply('*nat\n:VIPNAT - [0:0]\n-A VIPNAT -p tcp\nCOMMIT\n');
      await apply('*nat\n:VIPNAT - [0:0]\n-A VIPNAT -p udp\nCOMMIT\n');
      expect(await show()).toBe(natTable(['VIPNAT'], ['-A VIPNAT -p udp']));
    });

    test('a delete by value takes the first equal rule, however it is spelled', async () => {
      await run('*nat\n:VIPNAT - [0:0]\n-A OUTPUT -p tcp -m tcp --dport 53 -j VIPNAT\nCOMMIT\n');
      await apply('*nat\n-D OUTPUT --protocol 6 --dport 53 -j VIPNAT\nCOMMIT\n');
      expect(await show()).toBe(natTable(['VIPNAT'], []));
    });

    test.each([
      ['a rule that is gone cannot be deleted', '-D OUTPUT -p udp -j VIPNAT'],
      ['a chain that does not exist cannot be deleted', '-X VIPNAT-GONE'],
      ['a chain that rules lead to cannot be deleted', '-X VIPNAT'],
      ['a chain with rules in it cannot be deleted', '-X VIPNAT-FULL'],
      ['a chain that does not exist takes no rules', '-A VIPNAT-GONE -p tcp'],
      ['a rule cannot lead to a chain that does not exist', '-A VIPNAT -j VIPNAT-GONE'],
      ['a rule cannot lead back to where it came from', '-A VIPNAT -j VIPNAT'],
      ['an option nobody knows is refused', '-A VIPNAT --no-such-option'],
      ['a command nobody knows is refused', '-Y VIPNAT'],
    ])('%s, and nothing of that table is written', async (_, line) => {
      await run(busyChains);
      const before = await show();
      const attempt = apply(`*nat\n:VIPNAT-NEW - [0:0]\n-A VIPNAT-FULL -p udp\n${line}\nCOMMIT\n`);
      await expect(attempt).rejects.toMatchObject({ code: 'TOOL_FAILED' });
      expect(await show()).toBe(before);
    });

    test('a failing second table leaves the first one written', async () => {
      const script =
        '*filter\n:VIPNAT-FORWARD - [0:0]\nCOMMIT\n*nat\n:VIPNAT - [0:0]\n-D OUTPUT -j VIPNAT\nCOMMIT\n';
      await expect(apply(script)).rejects.toMatchObject({ code: 'TOOL_FAILED' });
      const after = await show();
      expect(after).toContain(':VIPNAT-FORWARD - [0:0]');
      expect(after).not.toContain(':VIPNAT - [0:0]');
    });

    test('tables that were used are printed in the order of the tool', async () => {
      const script = ['nat', 'filter', 'mangle']
        .map((table) => `*${table}\n:FOREIGN - [0:0]\nCOMMIT\n`)
        .join('');
      await run(script);
      expect((await show()).match(/^\*\w+/gm)).toEqual(['*mangle', '*filter', '*nat']);
    });

    test('a foreign change triggers', async () => {
      const trigger = dialect === 'nft' ? 'nft-generation' : 'xtables-lock';
      const change = () => run('*nat\n:FOREIGN - [0:0]\nCOMMIT\n');
      expect(await watchChange(subject(), trigger, change)).toEqual([trigger]);
    });

    test.each([
      ['takes a rule of ours', '-F VIPNAT'],
      ['takes what leads to it', '-D OUTPUT -j VIPNAT'],
      ['puts a rule before it', '-I OUTPUT 1 -p udp -j RETURN'],
    ])('a foreign change that %s triggers as one of our rules', async (_what, line) => {
      const trigger = dialect === 'nft' ? 'own-rules' : 'xtables-lock';
      const ours = ':VIPNAT - [0:0]\n-A VIPNAT -p tcp -j RETURN\n-A OUTPUT -j VIPNAT';
      await run(`*nat\n${ours}\nCOMMIT\n`);
      const change = () => run(`*nat\n${line}\nCOMMIT\n`);
      expect(await watchChange(subject(), trigger, change)).toEqual([trigger]);
    });

    test('a write that fails is no change of the nftables generation, and reads never trigger', async () => {
      await run(busyChains);
      const triggers = await watchQuiet(subject(), async () => {
        await subject().kernel.read(everything);
        if (dialect === 'nft') await run('*nat\n-X VIPNAT\nCOMMIT\n').catch(() => undefined);
      });
      expect(triggers).toEqual([]);
    });

    test('what the save tool prints is handed on as it is', async () => {
      await run(foreignRules);
      await subject().breakTool(toolName(family, dialect, 'save'), 'garbage');
      expect(await show()).toBe(garbage);
    });

    test('a missing restore tool is TOOL_MISSING', async () => {
      await subject().breakTool(toolName(family, dialect, 'restore'), 'missing');
      await expect(apply(hookScript)).rejects.toMatchObject({ code: 'TOOL_MISSING' });
    });
  });
});

const hookScript = '*nat\n:VIPNAT - [0:0]\n-I PREROUTING -m comment --comment "vipnat:a" -j VIPNAT\nCOMMIT\n';

const busyChains =
  '*nat\n:VIPNAT - [0:0]\n:VIPNAT-FULL - [0:0]\n-A OUTPUT -j VIPNAT\n-A VIPNAT-FULL -p tcp\nCOMMIT\n';

function natTable(chains: readonly string[], rules: readonly string[]): string {
  const kernelChains = ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'].map(
    (chain) => `:${chain} ACCEPT [0:0]`,
  );
  const ownChains = chains.map((chain) => `:${chain} - [0:0]`);
  return `${['*nat', ...kernelChains, ...ownChains, ...rules, 'COMMIT'].join('\n')}\n`;
}

/** Dates and counters are the namespace's own. */
function withoutComments(text: string): string {
  return text.replaceAll(/^#.*\n/gm, '').replaceAll(/\[\d+:\d+\]/g, '[0:0]');
}
