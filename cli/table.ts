import type { CommandRow } from './command.ts';

/** What help says of the program as a whole. */
export const programSummary =
  'Load-balances the virtual IP of a Kubernetes control plane, and Services, in the kernel.';

/** What `vipnat --help` says below the commands. */
export const programHelp = `
Examples:
  vipnat plan --vip 10.0.0.50        what vipnat would write on this host, and why
  vipnat run --vip 10.0.0.50         the agent

Exit status: 0 done, or nothing wrong. 1 the command failed.
2 check, status, services, seats, device or doctor found something. 3 doctor found failures.
78 the command line or configuration is wrong.
See vipnat help COMMAND for the options of a command. Each option can also be
a variable (VIPNAT_PROXY_MODE) or a key in the --config file (proxyMode).`;

/** The program's help: headings in their order, and below each the commands with what they do, as a phrase. */
export const headingToSummaries = {
  'On a master:': {
    run: 'run the agent, which keeps the rules in sync',
    plan: 'print what run would write',
    check: 'compare the rules in the kernel with the wanted rules',
    status: 'print on one screen whether each virtual IP is balanced',
    doctor: 'find what is wrong with this host, and how to fix it',
    drain: 'give this master no new connections, before maintenance',
    undrain: 'end the drain of this master',
    cleanup: 'remove all rules of vipnat, or the rules of one --vip',
  },
  'Services:': {
    controller: 'run the controller, which gives addresses to Services',
    balancer: 'run the balancer, which sends connections to Services to their pods',
    services: 'print each Service with its address, and why it does not work',
    seats: "print which nodes hold Services' addresses, or move them",
    device: 'ask load balancers outside of the cluster, and try drivers of them',
  },
  'Configuration to print:': {
    vrid: "print keepalived's virtual_router_id for a virtual IP",
    keepalived: "print keepalived's configuration for this node",
    manifest: 'print a manifest of the agent or of keepalived: YAML for Kubernetes, files for systemd',
  },
  'This command line:': {
    completion: 'print a completion script for a shell',
    help: 'print the help of a command',
    version: 'print the version',
  },
};

/** What one needs is loaded when it is called: what prints rules in 100 ms must not wait for what the agent needs. */
const nameToLoad = {
  run: async () => (await import('./commands/run.ts')).run,
  plan: async () => (await import('./commands/plan.ts')).plan,
  check: async () => (await import('./commands/check.ts')).check,
  status: async () => (await import('./commands/status.ts')).status,
  doctor: async () => (await import('./commands/doctor.ts')).doctor,
  drain: async () => (await import('./commands/drain.ts')).drain,
  undrain: async () => (await import('./commands/drain.ts')).undrain,
  cleanup: async () => (await import('./commands/cleanup.ts')).cleanup,
  vrid: async () => (await import('./commands/keepalived.ts')).vrid,
  manifest: async () => (await import('./commands/manifest.ts')).manifest,
  keepalived: async () => (await import('./commands/keepalived.ts')).keepalived,
  controller: async () => (await import('./commands/controller.ts')).controller,
  balancer: async () => (await import('./commands/balancer.ts')).balancer,
  services: async () => (await import('./commands/services.ts')).services,
  seats: async () => (await import('./commands/seats.ts')).seats,
  device: async () => (await import('./commands/device.ts')).device,
  completion: async () => (await import('./commands/help.ts')).completion,
  help: async () => (await import('./commands/help.ts')).help,
  version: async () => (await import('./commands/help.ts')).printVersion,
} as const satisfies Readonly<Record<string, CommandRow['load']>>;

/** The names of all commands. */
export const commandNames = Object.keys(nameToLoad) as readonly (keyof typeof nameToLoad)[];

const summaries = Object.values(headingToSummaries).flatMap((part) => Object.entries(part));
const nameToSummary = new Map<string, string>(summaries);

/** All commands. */
export const table: readonly CommandRow[] = commandNames.map((name) => ({
  name,
  summary: nameToSummary.get(name) ?? '',
  load: nameToLoad[name],
}));
