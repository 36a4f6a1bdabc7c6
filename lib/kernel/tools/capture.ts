import { VipnatError } from '../../text/errors.ts';
import { execTool } from './exec.ts';
import { toolFailed, toolMissing } from './tool-errors.ts';
import { isInPath } from './toolbox.ts';

/** Six hosts that advertise ten times a second for three seconds. */
const maxPackets = 200;

/** After its time timeout(1) ends with this status. */
const timedOutStatus = 124;

/** tcpdump 4.99.3, `Couldn't change to 'tcpdump' uid=102 gid=105: Operation not permitted`; -Z root changes nothing about it. */
const keepsRoot = /Couldn't change to '/;

/** Room for timeout and tcpdump to start and to end. */
const spareMs = 3000;

/**
 * Listens to VRRP on every interface for some milliseconds, and answers what `tcpdump -x` printed: for each packet a
 * line about it and then its bytes from the IP header on. Packets count before any firewall of this host has seen them.
 * Rejects with TOOL_MISSING, TOOL_NOT_PERMITTED or TOOL_FAILED.
 */
export async function captureVrrp(durationMs: number): Promise<string> {
  if (!isInPath('tcpdump')) throw toolMissing('tcpdump');
  const tcpdump = ['tcpdump', '-i', 'any', '-n', '-l', '-x', '--immediate-mode', '-c', String(maxPackets)];
  const { exitCode, stdout, stderr } = await execTool({
    tool: 'timeout',
    arguments: ['-s', 'INT', String(durationMs / 1000), ...tcpdump, 'ip proto 112 or ip6 proto 112'],
    limitMs: durationMs + spareMs,
    isPatient: true,
  });
  if (keepsRoot.test(stderr)) {
    const reason =
      "tcpdump may not give up root's rights here (CAP_SETUID, CAP_SETGID), so it does not listen";
    throw new VipnatError(
      'TOOL_NOT_PERMITTED',
      `${reason}: run this on the host, or in a privileged container`,
    );
  }
  if (exitCode !== 0 && exitCode !== timedOutStatus) {
    throw toolFailed({ tool: 'tcpdump', exitCode, stderr, input: '' });
  }
  return stdout;
}
