import { useCluster } from '../../support/network/use-cluster.ts';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../../support/network/own-folder.ts';
import { startProxies, vipArguments } from './traffic.ts';
import { test, expect } from '@jest/globals';
import { Agent, vipnatCommand } from '../../support/host/vipnat.ts';
import { waitUntil } from '../../support/jest/waiting.ts';
import { locateDisk } from '../../support/network/namespaces.ts';
import { rootFolder } from '../../../tools/lab/settings/folders.ts';
import { readTable, readSection, unquote } from '../../support/documents/table.ts';

/** Every call that names a file or makes, joins or opens a socket to others. */
const calls = 'trace=%file,socket,bind,connect';

/** Of the programs themselves, see the row `*` of the table. */
const ofPrograms =
  /^\/(?:bin|lib|lib64|opt|root|sbin|usr)(?:\/|$)|^\/etc\/(?:ld\.so\.|localtime$|nsswitch\.conf$|ssl\/|pki\/|resolv\.conf$|hosts$|host\.conf$|gai\.conf$|passwd$|group$|services$|protocols$|ethertypes$|xtables\.conf$|netconfig$)/;

/** Only looked at on the way to another, as those are that lead to vipnat itself. */
const folders = ['/', '/etc', '/proc', '/run', '/var', '/var/lib', '/var/run', '/sys', '/dev'];

const folder = makeFolder('traces');
const cluster = useCluster('all tests', async () => {
  await startProxies(cluster, ['m1'], 'nft', ['ipv4']);
  // Leaves the xtables lock, as on any host where that tool was used once.
  await cluster.shell('m1', 'iptables-legacy --wait --list');
});

test('no file and no socket is touched that docs/security.md does not name', async () => {
  const namespace = cluster.namespaceOf('m1');
  const agent = new Agent(cluster.namespaces.start(namespace, trace('run')));
  await agent.waitForLine(/ service-chain: /);
  for (const command of ['plan', 'check', 'status', 'doctor'])
    await cluster.namespaces.run(namespace, trace(command));
  const refuse = 'iptables-nft -I INPUT -p tcp --dport 6443 -j REJECT --reject-with tcp-reset';
  await cluster.shell('m3', refuse);
  await agent.waitForLine(/ -> direct to /);
  await cluster.namespaces.shell(namespace, 'curl --silent http://127.0.0.1:10268/status');
  await endTraced(agent);

  const touched = readTraces();
  expect([...touched.keys()]).toEqual(
    expect.arrayContaining(['/var/lib/vipnat/endpoints.json', 'AF_NETLINK', 'AF_UNIX @vipnat-agent']),
  );
  const isNamed = readRules();
  expect([...touched].filter(([name, isWritten]) => !isNamed(name, isWritten))).toEqual([]);
  const unused = listPatterns(['write', 'socket']).filter(
    (pattern) => ![...touched.keys()].some((name) => pattern.test(name)),
  );
  expect(unused).toEqual([]);
});

function trace(command: string): string[] {
  // A file for each thread: where they share one, an error stands on another line than its call.
  const strace = ['strace', '-ff', '-qq', '-e', calls, '-s', '300', '-o', join(folder, command)];
  return [...strace, ...vipnatCommand([command, ...vipArguments])];
}

/** strace itself ends with what it follows, and takes no signals meanwhile. */
async function endTraced(agent: Agent): Promise<void> {
  const children = readFileSync(`/proc/${agent.pid}/task/${agent.pid}/children`, 'utf8').trim();
  for (const pid of children.split(' ')) process.kill(Number(pid), 'SIGTERM');
  await waitUntil(() => agent.listLines(/: vipnat stops\. /).length > 0, 'the agent does not stop');
}

/** By path or socket, whether it was written. */
function readTraces(): Map<string, boolean> {
  const touched = new Map<string, boolean>();
  for (const file of readdirSync(folder)) {
    for (const line of readFileSync(join(folder, file), 'utf8').split('\n'))
      for (const name of readNames(line)) touched.set(name, touched.get(name) === true || isWrite(line));
  }
  return touched;
}

/** What a line of strace's is about; nothing where there was no such file. */
function readNames(line: string): string[] {
  if (/ = -1 E(?:NOENT|NOTDIR) /.test(line)) return [];
  const socket = /\bsocket\((AF_\w+)/.exec(line)?.[1];
  if (socket !== undefined) return socket === 'AF_UNIX' ? [] : [socket];
  const [, unix] = /sun_path=(@?"[^"]*")/.exec(line) ?? [];
  if (unix !== undefined) return [`AF_UNIX ${unix.replaceAll('"', '')}`];
  if (/\b(?:connect|bind|execve)\(/.test(line)) return [];
  const disk = locateDisk(cluster.namespaceOf('m1'));
  const paths = [...line.matchAll(/(?<=[(, ])"(\/[^"]*)"/g)];
  // Behind the link's own path is where it leads.
  const own = /\breadlink(?:at)?\(/.test(line) ? paths.slice(0, 1) : paths;
  // The stand-in for /var/lib and /run, which a host has.
  const others = own.filter(([, path]) => path !== disk);
  return others.map(([, path = '']) =>
    path.replace(`${disk}/vipnat`, '/var/lib/vipnat').replace(`${disk}/run`, '/run/vipnat'),
  );
}

function isWrite(line: string): boolean {
  return /O_WRONLY|O_RDWR|O_CREAT|\b(?:mkdir|rename|unlink|chmod|chown|link|symlink|truncate)\w*\(/.test(
    line,
  );
}

/** The table, as a question. */
function readRules(): (name: string, isWritten: boolean) => boolean {
  const writable = listPatterns(['write', 'socket', 'socket of the system']);
  const readable = [...writable, ...listPatterns(['read'])];
  return (name, isWritten) => {
    const isOnWay = folders.includes(name) || rootFolder.startsWith(`${name}/`);
    const isHarmless = ofPrograms.test(name) || isOnWay || `${name}/`.startsWith(rootFolder);
    // A file that is replaced is reached by the descriptor of its folder.
    const isReplaced = /^\/proc\/self\/fd\/\d+\/\.?(?:endpoints\.json|serving)/.test(name);
    if (isReplaced || (isHarmless && !isWritten)) return true;
    return (isWritten ? writable : readable).some((pattern) => pattern.test(name));
  };
}

/** The names of the table's rows of some uses. */
function listPatterns(uses: readonly string[]): RegExp[] {
  const rows = readTable(readSection('docs/security.md', 'Files and sockets'));
  const named = rows.filter(([, use = '']) => uses.includes(use));
  return named.flatMap(([names = '']) => names.split(', ').map((name) => toPattern(unquote(name))));
}

function toPattern(text: string): RegExp {
  const escaped = text.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replaceAll('*', '.*')}$`);
}
