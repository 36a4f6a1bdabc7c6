import { describe, afterEach, test, expect } from '@jest/globals';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolderEach } from '../../support/network/own-folder.ts';
import { once } from 'node:events';
import { readConfiguration, findInstance } from '../../../lib/keepalived/read.ts';

const instance = 'vrrp_instance A {\n  virtual_router_id 51\n  virtual_ipaddress {\n    10.0.0.50\n  }\n}\n';

describe('a keepalived in a container', () => {
  let folder: string;
  let container: ChildProcess;
  makeFolderEach('files', async (made) => {
    folder = made;
    mkdirSync(join(folder, 'etc'));
    const script = `mount -t tmpfs tmpfs ${folder}/etc
      cat >${folder}/etc/real
      ln -s ${folder}/etc/real ${folder}/etc/link
      ln -s . ${folder}/etc/loop
      echo 'include loop/../etc/link' >${folder}/etc/keepalived.conf
      ln -s / ${folder}/etc/top
      echo ready; exec sleep infinity`;
    container = spawn('unshare', ['--mount', 'sh', '-euc', script], { stdio: ['pipe', 'pipe', 'inherit'] });
    container.stdin?.end(instance);
    if (container.stdout !== null) await once(container.stdout, 'data');
  });
  afterEach(async () => {
    container.kill('SIGKILL');
    await once(container, 'exit');
  });

  const readThere = async (file: string) => {
    const running = {
      ...{ pid: container.pid ?? 0, name: 'keepalived', group: '', isSurelyHere: true },
      arguments: ['keepalived', '-f', file],
    };
    return await readConfiguration([running], '/none');
  };

  test('has its own files, also behind links to whole paths', async () => {
    for (const file of ['real', 'link', 'loop/link', `top${folder}/etc/link`, 'keepalived.conf']) {
      const { path, text } = await readThere(`${folder}/etc/${file}`);
      expect(path).toBe(`${folder}/etc/${file}`);
      expect(findInstance(text ?? '', '10.0.0.50')).toEqual({ vrid: 51, priority: null });
    }
  });

  test('and no others', async () => {
    writeFileSync(
      join(folder, 'etc/real'),
      'vrrp_instance WRONG {\n  virtual_router_id 1\n  virtual_ipaddress {\n    10.0.0.50\n  }\n}\n',
    );
    const { text } = await readThere(`${folder}/etc/link`);
    expect(findInstance(text ?? '', '10.0.0.50')?.vrid).toBe(51);
    expect((await readThere(`${folder}/etc/missing`)).text).toBeNull();
  });
});
