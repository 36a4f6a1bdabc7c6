/** Prints a configuration on a host with a few interfaces, and writes it to files. For keepalived-command.test.ts. */
import { runProgram } from '../../../cli/program.ts';
import { join } from 'node:path';
import { writeFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';

const commands = `
link add eth0 type veth peer name other
link set eth0 up
link set other up
addr add 10.0.0.11/24 dev eth0 label eth0:1
addr add fd00::11/64 dev eth0 nodad`;

async function print(...more: readonly string[]) {
  let stdout = '';
  let stderr = '';
  const exitCode = await runProgram({
    args: ['keepalived', '--vip', '10.0.0.50', '--peers', '10.0.0.11,10.0.0.12,10.0.0.13', ...more],
    environment: {},
    stdout: (text) => (stdout += text),
    stderr: (text) => (stderr += text),
  });
  return { exitCode, stdout, stderr };
}

execFileSync('ip', ['-batch', '-'], { input: `${commands.trim()}\n` });
const folder = mkdtempSync(join(tmpdir(), 'vipnat-keepalived-'));
try {
  const file = join(folder, 'new', 'written.conf');
  const write = async (path: string) => ({
    ...(await print('--output', path)),
    text: readFileSync(path, 'utf8'),
  });
  const printed = await print();
  const written = await write(file);
  const again = await write(file);
  const unwritten = await print('--output', join(file, 'keepalived.conf'));
  // What holds virtual IPs that are not vipnat's.
  const ingress = join(folder, 'ingress.conf');
  writeFileSync(ingress, 'vrrp_instance ingress {\n}\n');
  process.stdout.write(JSON.stringify({ printed, written, again, unwritten, foreign: await write(ingress) }));
} finally {
  rmSync(folder, { recursive: true });
}
