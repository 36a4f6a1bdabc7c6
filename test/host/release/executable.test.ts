import { beforeAll, describe, test, expect } from '@jest/globals';
import { makeArtifacts, findArtifact, releaseLimitMs } from '../../support/release/artifacts.ts';
import { execa } from 'execa';
import { readFileSync } from 'node:fs';
import { startDriverExample } from '../../support/documents/driver-example.ts';
import { sentinelFuse } from '../../../tools/release/executable/executable.ts';

let amd64 = '';
let arm64 = '';
beforeAll(async () => {
  const folder = await makeArtifacts();
  amd64 = findArtifact(folder, /-linux-amd64$/);
  arm64 = findArtifact(folder, /-linux-arm64$/);
}, releaseLimitMs);

/** Where it is while it runs: in no folder for temporary files, wherever the checkout is. */
const place = '/mnt/vipnat';

/**
 * Runs a script where there is nothing but the libraries of `$0`, which is the executable: no Node.js, no checkout, a network of its own.
 * Nothing is left of what the script writes to /mnt and /run.
 */
async function run(script: string) {
  const words = '--net --mount --pid --fork --kill-child --mount-proc --propagation private'.split(' ');
  // Opened before /mnt is hidden, in which the checkout may be.
  const alone = `exec 9<"$0"; mount -t tmpfs tmpfs /mnt; cat <&9 >${place}; exec 9<&-; chmod 755 ${place}
    ip link set lo up; ip address add 10.0.0.50/32 dev lo; mount -t tmpfs tmpfs /run; cd /run`;
  const result = await execa(
    'unshare',
    // A bash whose standard input is a socket reads ~/.bashrc first.
    [...words, 'bash', '--norc', '-c', `${alone}\nexec bash --norc -c "$1" ${place}`, amd64, script],
    { env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' }, extendEnv: false, reject: false },
  );
  return { exitCode: result.exitCode, stdout: result.stdout, stderr: result.stderr };
}

describe('the executable for amd64', () => {
  test('prints what the program of the checkout prints', async () => {
    expect((await run('"$0" manifest daemonset --vip 10.0.0.50')).stdout).toBe(
      readFileSync('manifests/daemonset.yaml', 'utf8').trimEnd(),
    );
  });

  test('prints units that start it, where it is', async () => {
    const { stdout } = await run('"$0" manifest systemd --vip 10.0.0.50');
    expect(stdout).toContain(`\nExecStart=${place} run --vip=10.0.0.50:6443\n`);
  });

  test('starts tools, asks the kernel, reads YAML, logs and answers, as an agent', async () => {
    const script = `
      printf 'vip: 10.0.0.50\\nendpoints: 10.0.0.50:6443\\nlistin: x\\n' >bad.yaml
      "$0" check --config bad.yaml; echo "status $?"
      "$0" run --vip 10.0.0.50 --endpoints 10.0.0.11:6443 --state-dir /run/state >log 2>&1 & agent=$!
      while ! "$0" check 2>&1 | grep --quiet 'in sync' && kill -0 $agent; do sleep 0.1; done
      "$0" check; bash -c 'exec 3<>/dev/tcp/127.0.0.1/10268; printf "GET /metrics HTTP/1.0\\r\\n\\r\\n" >&3; grep -c ^vipnat_ <&3'
      grep -c '#.*(deleted)' /proc/$agent/maps
      kill $agent; wait $agent; echo "status $?"; "$0" cleanup; cat log >&2`;
    const { stdout, stderr } = await run(script);
    expect(stdout).toMatch(
      /^status 78\n10\.0\.0\.50:6443: NO APISERVER IS READY, .*\. Its rules are in sync .*\n[1-9]\d+\n[1-9]\nstatus 0$/,
    );
    expect(stderr).toContain(
      '[CONFIG_INVALID] listin is not an option (from bad.yaml line 3). Did you mean listen?',
    );
    expect(stderr).toContain('removed (nat, ');
  });

  test('loads a driver of devices from a file', async () => {
    const { end, driver, description } = await startDriverExample();
    try {
      const words = `device conformance --only ensure-list --device ${description} --driver ${driver}`;
      expect(await run(`"$0" ${words}`)).toEqual({
        exitCode: 0,
        stdout: expect.stringMatching(/^passed {3}ensure-list: .*\n1 passed, 0 failed, 0 not run$/),
        stderr: '',
      });
    } finally {
      end();
    }
  });

  test.each([
    ['where a folder is all but full', 'mount -t tmpfs -o size=16k tmpfs /dev/shm'],
    [
      'where a hardened host executes nothing from temporary folders',
      `for folder in /dev/shm /tmp /run /var/tmp; do mount -t tmpfs -o noexec tmpfs $folder; done
       mount -t tmpfs tmpfs /var/lib; mkdir /var/lib/vipnat`,
    ],
  ])('loads its native part %s', async (_where, script) => {
    const { exitCode, stdout } = await run(`${script}; "$0" check --vip 10.0.0.50`);
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: expect.stringContaining('10.0.0.50') });
  });

  test('says in one line where its native part cannot be loaded from', async () => {
    const noexec =
      'for folder in /dev/shm /tmp /run /var/tmp; do mount -t tmpfs -o noexec tmpfs $folder; done';
    const { exitCode, stderr } = await run(
      `${noexec}; mount -t tmpfs tmpfs /var/lib; "$0" status --vip 10.0.0.50`,
    );
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(
      /the executable's native part cannot be loaded\. Let one of these folders be .*\/dev\/shm: .*\/run: /,
    );
  });
});

/** e_machine of elf.h, at byte 18. */
const elfMachines = { amd64: 0x3e, arm64: 0xb7 };

describe('the executable for arm64, of which only the parts can be looked at here,', () => {
  test('is for that processor, and has its switch on', () => {
    for (const [name, machine] of Object.entries(elfMachines)) {
      const bytes = readFileSync(name === 'amd64' ? amd64 : arm64);
      expect([bytes.toString('latin1', 1, 4), bytes.readUInt16LE(18)]).toEqual(['ELF', machine]);
      expect(['1', '0'].map((text) => bytes.includes(`${sentinelFuse}:${text}`))).toEqual([true, false]);
    }
  });

  test('has the same program in a note that the dynamic linker maps, and the native part of its own', () => {
    const blob = readLoadedNote(readFileSync(arm64));
    for (const file of ['program.js', 'vendor/winston.js', 'vendor/netlink.js'])
      expect([file, blob.includes(readFileSync(`dist/${file}`))]).toEqual([file, true]);
    expect(blob.includes(readFileSync('dist/prebuilds/linux-arm64/node.napi.node'))).toBe(true);
    expect(blob.includes(readFileSync('dist/prebuilds/linux-x64/node.napi.node'))).toBe(false);
  });
});

const segmentTypes = { load: 1, note: 4 };

type Segment = Readonly<Record<'type' | 'offset' | 'size', number>>;

/** The program headers of a 64-bit file, as elf.h has them. */
function listSegments(bytes: Buffer): Segment[] {
  const [start, size] = [Number(bytes.readBigUInt64LE(32)), bytes.readUInt16LE(54)];
  return Array.from({ length: bytes.readUInt16LE(56) }, (_, index) => {
    const header = bytes.subarray(start + index * size);
    return {
      type: header.readUInt32LE(0),
      offset: Number(header.readBigUInt64LE(8)),
      size: Number(header.readBigUInt64LE(32)),
    };
  });
}

/** The largest note, which has to be within what is loaded into memory. */
function readLoadedNote(bytes: Buffer): Buffer {
  const segments = listSegments(bytes);
  const notes = segments.filter(({ type }) => type === segmentTypes.note);
  const [note] = notes.sort((one, other) => other.size - one.size);
  if (note === undefined) throw new Error('there is no note');
  const end = note.offset + note.size;
  const isLoaded = segments.some(
    ({ type, offset, size }) => type === segmentTypes.load && offset <= note.offset && end <= offset + size,
  );
  if (!isLoaded) throw new Error('the note is not loaded');
  return bytes.subarray(note.offset, end);
}
