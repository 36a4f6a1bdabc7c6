import { type HostFacts, requireHost } from '../../../../tools/lab/settings/requirements.ts';
import { describe, test, expect } from '@jest/globals';
import { defaultOptions } from '../../../../tools/lab/settings/options.ts';

const enough: HostFacts = {
  isRoot: true,
  availableMegabytes: 16_000,
  machineMemoryMegabytes: 8000,
  groupControllers: ['cpu', 'memory', 'pids'],
  inotifyInstances: { allowed: 128, used: 10 },
  isInPath: () => true,
};

describe('what a lab needs of this machine', () => {
  test('is there, and nothing is said', () => {
    expect(() => {
      requireHost(defaultOptions, enough);
    }).not.toThrow();
  });

  test.each<[string, Partial<HostFacts>, string]>([
    ['root', { isRoot: false }, 'root is needed'],
    [
      'programs',
      { isInPath: (program) => !['keepalived', 'curl'].includes(program) },
      'not found: curl, keepalived. Install: apt-get install curl keepalived',
    ],
    ['memory', { availableMegabytes: 900 }, 'takes 2500 MB of memory, and 900 MB are available'],
  ])('%s: missing, and named with the way out', (_what, missing, message) => {
    expect(() => {
      requireHost(defaultOptions, { ...enough, ...missing });
    }).toThrow(message);
  });

  test('virtual machines need more, and programs of their own', () => {
    const ipvs = { ...defaultOptions, proxyMode: 'ipvs' as const };
    expect(() => {
      requireHost(ipvs, { ...enough, availableMegabytes: 4000 });
    }).toThrow('a lab in ipvs mode takes 5000 MB');
    expect(() => {
      requireHost(ipvs, { ...enough, isInPath: (program) => program !== 'linux.uml' });
    }).toThrow('apt-get install user-mode-linux');
    expect(() => {
      requireHost(ipvs, { ...enough, machineMemoryMegabytes: 64 });
    }).toThrow('virtual machines keep 2500 MB in /dev/shm, which has room for 64 MB');
  });

  test('real nodes need control groups of version 1, and programs of their own', () => {
    const real = { ...defaultOptions, hasNodes: true };
    expect(() => {
      requireHost(real, { ...enough, groupControllers: ['cpu'] });
    }).toThrow('here are none for memory, pids: start this machine with');
    expect(() => {
      requireHost(defaultOptions, { ...enough, groupControllers: [] });
    }).not.toThrow();
    expect(() => {
      requireHost(real, { ...enough, isInPath: (program) => program !== '/usr/lib/cni/bridge' });
    }).toThrow('apt-get install containernetworking-plugins');
  });

  test('bare nodes need systemd on top', () => {
    const bare = { ...defaultOptions, hasNodes: true, isBare: true };
    expect(() => {
      requireHost(bare, { ...enough, isInPath: (program) => program !== '/usr/lib/systemd/systemd' });
    }).toThrow('apt-get install systemd');
  });

  test('real nodes need free inotify instances, and other labs do not', () => {
    const few = { ...enough, inotifyInstances: { allowed: 128, used: 70 } };
    expect(() => {
      requireHost({ ...defaultOptions, hasNodes: true }, few);
    }).toThrow(
      'real nodes take 80 inotify instances, and 58 of 128 are free: sysctl -w fs.inotify.max_user_instances=1024, or take down another lab',
    );
    expect(() => {
      requireHost(defaultOptions, few);
    }).not.toThrow();
  });
});
