import type { CommandRow } from './command.ts';

/** What help says of the program as a whole. */
export const programSummary = "Load-balances a Kubernetes control plane's virtual IP in the kernel.";

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

/** The program's help: headings in their order, and the commands below each. */
export const headingToNames = {
  'On a master:': ['run', 'plan', 'check', 'status', 'doctor', 'drain', 'undrain', 'cleanup'],
  'Services:': ['controller', 'balancer', 'services', 'seats', 'device'],
  'Configuration to print:': ['vrid', 'keepalived', 'manifest'],
  'This command line:': ['completion', 'help', 'version'],
};

/** All commands. What one needs is loaded when it is called: what prints rules in 100 ms must not wait for what the agent needs. */
export const table = [
  {
    name: 'run',
    summary: 'run the agent, which keeps the rules in sync',
    load: async () => (await import('./commands/run.ts')).run,
  },
  {
    name: 'plan',
    summary: 'print what run would write',
    load: async () => (await import('./commands/plan.ts')).plan,
  },
  {
    name: 'check',
    summary: 'compare the rules in the kernel with the wanted rules',
    load: async () => (await import('./commands/check.ts')).check,
  },
  {
    name: 'status',
    summary: 'print on one screen whether each virtual IP is balanced',
    load: async () => (await import('./commands/status.ts')).status,
  },
  {
    name: 'doctor',
    summary: 'find what is wrong with this host, and how to fix it',
    load: async () => (await import('./commands/doctor.ts')).doctor,
  },
  {
    name: 'drain',
    summary: 'give this master no new connections, before maintenance',
    load: async () => (await import('./commands/drain.ts')).drain,
  },
  {
    name: 'undrain',
    summary: 'end the drain of this master',
    load: async () => (await import('./commands/drain.ts')).undrain,
  },
  {
    name: 'cleanup',
    summary: 'remove all rules of vipnat, or the rules of one --vip',
    load: async () => (await import('./commands/cleanup.ts')).cleanup,
  },
  {
    name: 'vrid',
    summary: "print keepalived's virtual_router_id for a virtual IP",
    load: async () => (await import('./commands/keepalived.ts')).vrid,
  },
  {
    name: 'manifest',
    summary: 'print a manifest of the agent or of keepalived: YAML for Kubernetes, files for systemd',
    load: async () => (await import('./commands/manifest.ts')).manifest,
  },
  {
    name: 'keepalived',
    summary: "print keepalived's configuration for this node",
    load: async () => (await import('./commands/keepalived.ts')).keepalived,
  },
  {
    name: 'controller',
    summary: 'run the controller, which gives addresses to Services',
    load: async () => (await import('./commands/controller.ts')).controller,
  },
  {
    name: 'balancer',
    summary: 'run the balancer, which sends connections to Services to their pods',
    load: async () => (await import('./commands/balancer.ts')).balancer,
  },
  {
    name: 'services',
    summary: 'print each Service with its address, and why it does not work',
    load: async () => (await import('./commands/services.ts')).services,
  },
  {
    name: 'seats',
    summary: "print which nodes hold Services' addresses, or move them",
    load: async () => (await import('./commands/seats.ts')).seats,
  },
  {
    name: 'device',
    summary: 'ask load balancers outside of the cluster, and try drivers of them',
    load: async () => (await import('./commands/device.ts')).device,
  },
  {
    name: 'completion',
    summary: 'print a completion script for a shell',
    load: async () => (await import('./commands/completion.ts')).completion,
  },
  {
    name: 'help',
    summary: 'print the help of a command',
    load: async () => (await import('./commands/help.ts')).help,
  },
  {
    name: 'version',
    summary: 'print the version',
    load: async () => (await import('./commands/version.ts')).printVersion,
  },
] as const satisfies readonly CommandRow[];

/** The names of all commands. */
export const commandNames = table.map(({ name }) => name);
