import { type CommandRow } from '../command/command.ts';

const [onMaster, services, toPrint, itself] = [
  'On a master:',
  'Services:',
  'Configuration to print:',
  'This command line:',
];

/** The headings of the program's help, in their order. */
export const groups: readonly string[] = [onMaster, services, toPrint, itself];

/** All commands. What one needs is loaded when it is called: what prints rules in 100 ms must not wait for what the agent needs. */
export const table = [
  {
    name: 'run',
    group: onMaster,
    summary: 'run the agent, which keeps the rules in sync',
    load: async () => (await import('../commands/run.ts')).run,
  },
  {
    name: 'plan',
    group: onMaster,
    summary: 'print what run would write',
    load: async () => (await import('../commands/plan.ts')).plan,
  },
  {
    name: 'check',
    group: onMaster,
    summary: 'compare the rules in the kernel with the wanted rules',
    load: async () => (await import('../commands/check.ts')).check,
  },
  {
    name: 'status',
    group: onMaster,
    summary: 'print on one screen whether each virtual IP is balanced',
    load: async () => (await import('../commands/status.ts')).status,
  },
  {
    name: 'doctor',
    group: onMaster,
    summary: 'find what is wrong with this host, and how to fix it',
    load: async () => (await import('../commands/doctor.ts')).doctor,
  },
  {
    name: 'drain',
    group: onMaster,
    summary: 'give this master no new connections, before maintenance',
    load: async () => (await import('../commands/drain.ts')).drain,
  },
  {
    name: 'undrain',
    group: onMaster,
    summary: 'end the drain of this master',
    load: async () => (await import('../commands/drain.ts')).undrain,
  },
  {
    name: 'cleanup',
    group: onMaster,
    summary: 'remove all rules of vipnat, or the rules of one --vip',
    load: async () => (await import('../commands/cleanup.ts')).cleanup,
  },
  {
    name: 'vrid',
    group: toPrint,
    summary: "print keepalived's virtual_router_id for a virtual IP",
    load: async () => (await import('../commands/vrid.ts')).vrid,
  },
  {
    name: 'manifest',
    group: toPrint,
    summary: 'print a manifest of the agent or of keepalived: YAML for Kubernetes, files for systemd',
    load: async () => (await import('../commands/manifest.ts')).manifest,
  },
  {
    name: 'keepalived',
    group: toPrint,
    summary: "print keepalived's configuration for this node",
    load: async () => (await import('../commands/keepalived.ts')).keepalived,
  },
  {
    name: 'controller',
    group: services,
    summary: 'run the controller, which gives addresses to Services',
    load: async () => (await import('../commands/controller.ts')).controller,
  },
  {
    name: 'balancer',
    group: services,
    summary: 'run the balancer, which sends connections to Services to their pods',
    load: async () => (await import('../commands/balancer.ts')).balancer,
  },
  {
    name: 'services',
    group: services,
    summary: 'print each Service with its address, and why it does not work',
    load: async () => (await import('../commands/services.ts')).services,
  },
  {
    name: 'seats',
    group: services,
    summary: "print which nodes hold Services' addresses, or move them",
    load: async () => (await import('../commands/seats.ts')).seats,
  },
  {
    name: 'device',
    group: services,
    summary: 'ask load balancers outside of the cluster, and try drivers of them',
    load: async () => (await import('../commands/device.ts')).device,
  },
  {
    name: 'completion',
    group: itself,
    summary: 'print a completion script for a shell',
    load: async () => (await import('../commands/completion.ts')).completion,
  },
  {
    name: 'help',
    group: itself,
    summary: 'print the help of a command',
    load: async () => (await import('../commands/help.ts')).help,
  },
  {
    name: 'version',
    group: itself,
    summary: 'print the version',
    load: async () => (await import('../commands/version.ts')).printVersion,
  },
] as const satisfies readonly CommandRow[];

/** The names of all commands. */
export const commandNames = table.map(({ name }) => name);
