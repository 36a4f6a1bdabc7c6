import { join } from 'node:path';

/** The files by which the balancer and its keepalived speak, by their whole paths. */
export interface SeatFiles {
  /** Its configuration: keepalived is started with this path, `--use-file`. */
  readonly file: string;
  /** A configuration that keepalived refused: for people. */
  readonly refusedFile: string;
  /** What keepalived itself found wrong with a file that it was to read: for people. */
  readonly checkLog: string;
  /** Where keepalived says its pid, `--pid`. */
  readonly pidFile: string;
  /** Where it is told whether this node can serve. */
  readonly trackFile: string;
  /** The named pipe by which it says what state its instances are in. It makes the pipe itself. */
  readonly notices: string;
}

/** The folder that is taken when none is given: beside that of the agent, which may run on the same host. */
export const usualRunFolder = '/run/vipnat-lb';

/** Those in the folder of `--run-dir`. */
export function locateSeatFiles(runDir: string): SeatFiles {
  return {
    file: join(runDir, 'keepalived.conf'),
    refusedFile: join(runDir, 'keepalived.conf.refused'),
    checkLog: join(runDir, 'keepalived.check'),
    pidFile: join(runDir, 'keepalived.pid'),
    trackFile: join(runDir, 'serving'),
    notices: join(runDir, 'notify'),
  };
}
