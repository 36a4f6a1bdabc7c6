import { addressOf } from '../../network/layout.ts';
import { type Host, hostFolders } from './host.ts';
import { type Apiserver, apiservers } from './truth.ts';

const folder = hostFolders.VIPNAT_STATE_DIR;
const file = `${folder}/endpoints.json`;

/** What can be wrong with the state folder and the file in it. */
export const stateFaults = ['full', 'read-only', 'garbage', 'half', 'empty', 'gone', 'a folder'] as const;

export type StateFault = (typeof stateFaults)[number];

const faultToScript: Readonly<Record<StateFault, string>> = {
  full: `cat /dev/zero >${folder}/filler 2>/dev/null || true`,
  'read-only': `mount -o remount,ro ${folder}`,
  garbage: `head -c 700 /dev/urandom >${file}`,
  half: `test ! -f ${file} || { head -c 90 ${file} >${folder}/half; mv ${folder}/half ${file}; }`,
  empty: `: >${file}`,
  gone: `rm -rf ${file}`,
  'a folder': `rm -f ${file}; mkdir -p ${file}`,
};

/** Makes it so; what is full or read-only stays so until `healState`. */
export async function harmState(host: Host, fault: StateFault): Promise<void> {
  // On a folder that is full or read-only most of it fails, as it should.
  await host.run(['sh', '-c', faultToScript[fault]]);
}

/** The apiservers of IPv4 that a host's file holds; none where it is not whole. */
export async function listSaved(host: Host): Promise<Apiserver[]> {
  const { stdout } = await host.run(['cat', file]);
  try {
    const whole = JSON.stringify(JSON.parse(stdout));
    return apiservers.filter((name) => whole.includes(`"${addressOf(name)}:6443"`));
  } catch {
    return [];
  }
}

/** Ends what does not end by itself; a file that was torn stays torn. */
export async function healState(host: Host): Promise<void> {
  await host.shell(
    `mount -o remount,rw ${folder}; rm -f ${folder}/filler; test ! -d ${file} || rmdir ${file}`,
  );
}
