import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { saveIptables } from '../../../../../lib/kernel/real/iptables.ts';
import { createToolbox } from '../../../../../lib/kernel/tools/toolbox.ts';

const nft = { family: 'ipv4', dialect: 'nft', limitMs: 5000 } as const;

describe('on a host with', () => {
  const path = process.env['PATH'];
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), `vipnat-${process.pid}-`));
    process.env['PATH'] = folder;
  });

  afterEach(async () => {
    process.env['PATH'] = path;
    await rm(folder, { recursive: true });
  });

  /** A tool that says its name and, asked for its version, what the real one says. */
  async function install(name: string, version = ''): Promise<void> {
    const script = `#!/bin/sh\nif [ "$1" = --version ]; then echo '${version}'; else echo '${name}'; fi\n`;
    await writeFile(join(folder, name), script, { mode: 0o755 });
  }

  test('named tools, they are taken', async () => {
    await install('iptables-nft-save');
    await install('iptables-save', 'iptables-save v1.8.9 (legacy)');
    expect(await createToolbox(5000).find('ipv4', 'nft', 'save')).toBe('iptables-nft-save');
  });

  test.each([
    ['iptables-save v1.8.9 (nf_tables)', 'nft', 'legacy'],
    ['iptables-save v1.8.9 (legacy)', 'legacy', 'nft'],
    ['iptables-save v1.6.1', 'legacy', 'nft'],
  ] as const)('plain tools only, %s is taken for %s and not for %s', async (version, dialect, other) => {
    await install('iptables-save', version);
    const toolbox = createToolbox(5000);
    expect(await toolbox.find('ipv4', dialect, 'save')).toBe('iptables-save');
    expect(await toolbox.find('ipv4', other, 'save')).toBeNull();
  });

  test('iptables-legacy only, there is nothing of the nft backend to read', async () => {
    await install('iptables-legacy-save');
    expect(await saveIptables(createToolbox(5000), nft)).toBeNull();
  });

  test('no iptables at all, reading says what is missing, until it is installed', async () => {
    const toolbox = createToolbox(5000);
    await expect(saveIptables(toolbox, nft)).rejects.toMatchObject({ code: 'TOOL_MISSING' });
    await install('iptables-nft-save');
    expect((await saveIptables(toolbox, nft))?.text).toBe('iptables-nft-save\n');
  });

  test('a file of that name that cannot be run, it is missing', async () => {
    await writeFile(join(folder, 'iptables-nft-save'), '', { mode: 0o644 });
    expect(await createToolbox(5000).find('ipv4', 'nft', 'save')).toBeNull();
  });
});
