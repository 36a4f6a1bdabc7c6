import { type HostFacts, requireHost } from '../../../../tools/lab/settings/requirements.ts';
import { test, expect } from '@jest/globals';
import { defaultOptions } from '../../../../tools/lab/settings/options.ts';

const enough: HostFacts = {
  ...{ isRoot: true, availableMegabytes: 16_000, machineMemoryMegabytes: 8000 },
  ...{ groupControllers: ['cpu', 'memory', 'pids'], inotifyInstances: { allowed: 128, used: 10 } },
  isInPath: () => true,
};

const without = (...programs: string[]) => ({ isInPath: (program: string) => !programs.includes(program) });
const [ipvs, real] = [
  { ...defaultOptions, proxyMode: 'ipvs' as const },
  { ...defaultOptions, hasNodes: true },
];
const bare = { ...real, isBare: true };
const few = { inotifyInstances: { allowed: 128, used: 70 } };

test.each<[string, typeof defaultOptions, Partial<HostFacts>, string]>([
  ['root', defaultOptions, { isRoot: false }, 'root is needed'],
  [
    'programs, and how to get them,',
    defaultOptions,
    without('keepalived', 'curl'),
    'not found: curl, keepalived. Install: apt-get install curl keepalived',
  ],
  ['RAM', defaultOptions, { availableMegabytes: 900 }, 'takes 2500 MB of memory, and 900 MB are available'],
  ['more memory for machines', ipvs, { availableMegabytes: 4000 }, 'a lab in ipvs mode takes 5000 MB'],
  ['user-mode Linux for machines', ipvs, without('linux.uml'), 'apt-get install user-mode-linux'],
  [
    'room for the memory of machines',
    ipvs,
    { machineMemoryMegabytes: 64 },
    'virtual machines keep 2500 MB in /dev/shm, which has room for 64 MB',
  ],
  ['cgroups', real, { groupControllers: ['cpu'] }, 'here are none for memory, pids: start this machine with'],
  ['plugins of CNI', real, without('/usr/lib/cni/bridge'), 'apt-get install containernetworking-plugins'],
  ['systemd for bare nodes', bare, without('/usr/lib/systemd/systemd'), 'apt-get install systemd'],
  [
    'free inotify instances for real nodes',
    real,
    few,
    'real nodes take 80 inotify instances, and 58 of 128 are free: sysctl -w fs.inotify.max_user_instances=1024, or take down another lab',
  ],
])('a lab needs %s of this machine: what is missing is named', (_what, options, missing, message) => {
  expect(() => {
    requireHost(options, { ...enough, ...missing });
  }).toThrow(message);
});

test.each([{}, { groupControllers: [] }, few])('an ordinary lab is content with %j', (facts) => {
  expect(() => {
    requireHost(defaultOptions, { ...enough, ...facts });
  }).not.toThrow();
});
