import { spawnSync } from 'node:child_process';

const realTime = ['chrt', '--rr', '10'] as const;

/**
 * The words in front of a keepalived: it comes before all else that this machine does, where the machine has that. A master that has to
 * wait a second for a processor is one that has fallen silent.
 */
export const prompt: readonly string[] =
  spawnSync(realTime[0], [...realTime.slice(1), 'true']).status === 0 ? realTime : [];
