/** Has real keepalived run beside folders that it can follow, and that it cannot. For keepalived-guard.test.ts. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { locateServingFile } from '../../../lib/keepalived/write.ts';
import { viewGuard } from '../../../lib/keepalived/read.ts';
import { sleep, systemClock } from '../../../lib/clock.ts';

const runDir = mkdtempSync(join(tmpdir(), 'guard-'));
const file = locateServingFile(runDir);
const folder = dirname(file);
const conf = join(runDir, 'keepalived.conf');
const shell = (script: string) => execFileSync('sh', ['-ec', script]);
const make = () => {
  mkdirSync(folder, { recursive: true });
  writeFileSync(file, '0\n');
};
const follow = `track_file {\n serving\n }`;
const configure = (tracks: string) => {
  writeFileSync(
    conf,
    `global_defs {\n script_user root\n}\ntrack_file serving {\n file "${file}"\n weight 0\n init_file 0\n}
vrrp_instance a {\n interface k0\n virtual_router_id 5\n priority 100\n virtual_ipaddress {\n 10.9.9.50/32\n }\n ${tracks}\n}\n`,
  );
};

let keepalived: ChildProcess | null = null;
async function start(prefix: readonly string[]): Promise<void> {
  const [program, ...words] = [...prefix, 'keepalived', '--vrrp', '--dont-fork', '--log-console'];
  keepalived = spawn(program, [...words, '-f', conf, '--pid', `${runDir}/p`, '--vrrp_pid', `${runDir}/v`]);
  await sleep(systemClock, 3000);
}

async function end(): Promise<void> {
  const ended = keepalived && once(keepalived, 'exit');
  keepalived?.kill();
  await ended;
  keepalived = null;
}

const view = () => viewGuard(file, ['10.9.9.50'], conf);

const nothing = () => undefined;
const remove = () => {
  rmSync(folder, { recursive: true });
};
const renew = () => {
  remove();
  make();
};
const move = () => {
  renameSync(folder, `${folder}.old`);
  make();
};
const leaveOut = () => {
  configure('');
};
const hide = `mount -t tmpfs none ${folder}; echo 0 >${file}; exec "$@"`;
const elsewhere = ['unshare', '--mount', 'sh', '-c', hide, 'sh'];
const withoutRights = ['setpriv', '--bounding-set=-dac_override,-dac_read_search'];

/** Words in front of its command, what is done before it starts, and what while it runs. The last one stays so. */
const cases: Readonly<Record<string, readonly [string[], before: () => void, meanwhile: () => void]>> = {
  well: [[], nothing, nothing],
  late: [[], remove, make],
  again: [[], nothing, renew],
  moved: [[], nothing, move],
  elsewhere: [elsewhere, nothing, nothing],
  unreadable: [withoutRights, () => shell(`chmod 0 ${folder}`), nothing],
  unnamed: [[], leaveOut, nothing],
  limited: [[], () => shell('echo 0 >/proc/sys/user/max_inotify_instances'), nothing],
};

shell(
  'ip link set lo up; ip link add k0 type veth peer name k1; ip link set k0 up; ip link set k1 up; ip addr add 10.9.9.1/24 dev k0',
);
const views: Record<string, Awaited<ReturnType<typeof view>>> = { none: await view() };
try {
  for (const [name, [prefix, before, meanwhile]] of Object.entries(cases)) {
    make();
    configure(follow);
    before();
    await start(prefix);
    meanwhile();
    views[name] = await view();
    await end();
    shell(`chmod 755 ${folder}; rm -rf ${folder} ${folder}.old`);
  }
} finally {
  await end();
  rmSync(runDir, { recursive: true, force: true });
}
process.stdout.write(JSON.stringify(views).replaceAll(`${runDir}/`, ''));
