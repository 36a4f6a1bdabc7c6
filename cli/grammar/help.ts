import { formatEndpoint } from '../../lib/address/endpoint.ts';
import {
  describeOption,
  listChoices,
  nameFlag,
  type OptionName,
  optionNames,
  schema,
  type Values,
} from '../../config/options.ts';

/** Flag to how help writes it, with what it takes: `--vip ADDR[:PORT]`, `--proxy-mode MODE`. Switches are not in it. */
export const configTerms: ReadonlyMap<string, string> = new Map([
  ['--config', '--config FILE'],
  ['--format', '--format FORMAT'],
  ['--family', '--family FAMILY'],
  ['--watch', '--watch[=SECONDS]'],
  ['--color', '--color WHEN'],
  ['--capture', '--capture DURATION'],
  ['--interface', '--interface NAME'],
  ['--peers', '--peers ADDR,…'],
  ['--vrid', '--vrid N,…'],
  ['--priority', '--priority N'],
  ['--advert', '--advert DURATION'],
  ['--output', '--output FILE'],
  ['--directory', '--directory FOLDER'],
  ['--keepalived-image', '--keepalived-image IMAGE'],
  ['--image', '--image IMAGE'],
  ['--namespace', '--namespace NAME'],
  ...optionNames.map((name): [string, string] => {
    const flag = nameFlag(name);
    const word = flag.slice(flag.lastIndexOf('-') + 1).toUpperCase();
    return [flag, `${flag} ${listChoices(name).length > 0 ? word : describeOption(name).argument}`];
  }),
]);

/** What help says of a flag that belongs to the configuration: its meaning, choices and default; null for another flag. */
export function describeConfigFlag(flag: string): string | null {
  const name = optionNames.find((candidate) => nameFlag(candidate) === flag);
  if (name === undefined) return null;
  const { meaning } = describeOption(name);
  const choices = listChoices(name);
  const preset = schema.parse({})[name];
  if (choices.length === 0) return `${meaning}${formatDefault(preset)}`;
  return `${meaning}: ${choices.map((choice) => (choice === preset ? `${choice} (default)` : choice)).join(', ')}`;
}

/** Durations are numbers of milliseconds. */
function formatDefault(preset: Values[OptionName]): string {
  if (preset === null || Array.isArray(preset)) return '';
  if (typeof preset === 'object') return ` (default: ${formatEndpoint(preset)})`;
  return ` (default: ${typeof preset === 'number' ? `${preset}ms` : preset})`;
}

/** What `vipnat --help` says below the commands. */
export const programHelp = `
Examples:
  vipnat plan --vip 10.0.0.50        what would be written on this host, and why
  vipnat run --vip 10.0.0.50         the agent

Exit status: 0 done, or all is well; 1 it could not be done or looked at;
2 check, status or doctor found something; 3 doctor found failures;
78 bad command line or configuration.
See vipnat help COMMAND for its options. Each option of the configuration can be
a variable (VIPNAT_PROXY_MODE) or a key in the --config file (proxyMode) as well.`;

/** What each command's help says below its options. */
export const commandHelp = {
  run: `
Examples:
  vipnat run --vip 10.0.0.50
  vipnat run --vip 10.0.0.50 --dry-run
  vipnat run --config /etc/vipnat.yaml

What was written keeps working when the agent stops; vipnat cleanup removes it.
Exit status: 0 ended as asked, 1 failed, 78 bad configuration.`,
  plan: `
Examples:
  vipnat plan --vip 10.0.0.50
  vipnat plan --vip 10.0.0.50 --format restore --family ipv4
  vipnat plan --vip 10.0.0.50 --json
  vipnat plan --vip 10.0.0.50 --offline --proxy-mode ipvs --cluster-ip 10.96.0.1

Beside a running agent no option is needed: its configuration is taken.
Rules go to standard output, everything else to standard error. Nothing is written.
Exit status: 0 printed, or nothing to change; 1 failed; 78 bad configuration.`,
  check: `
Examples:
  vipnat check --vip 10.0.0.50
  vipnat check --vip 10.0.0.50 --json

Beside a running agent no option is needed: its configuration is taken.
Exit status: 0 in sync, 1 failed, 2 drift, 78 bad configuration.`,
  status: `
Examples:
  vipnat status --vip 10.0.0.50
  vipnat status --vip 10.0.0.50 --json
  vipnat status --vip 10.0.0.50 --watch=5

Beside a running agent no option is needed: its configuration is taken.
Needs neither the agent nor the API. Nothing is written.
Exit status: 0 all is well, 1 failed, 2 not balanced or not in sync, 78 bad configuration.`,
  doctor: `
Examples:
  vipnat doctor --vip 10.0.0.50
  vipnat doctor --vip 10.0.0.50 --json
  vipnat doctor --vip 10.0.0.50 --capture 0s     without listening to VRRP adverts

Beside a running agent no option is needed: its configuration is taken.
Before an installation and when something is wrong. Needs neither the agent nor the
API; what it cannot find out it says. Nothing is written.
Exit status: 0 all is well, 1 failed, 2 warnings, 3 failures found, 78 bad configuration.`,
  cleanup: `
Examples:
  vipnat cleanup
  vipnat cleanup --dry-run           what would be removed
  vipnat cleanup --vip 10.0.0.50     only what is of this virtual IP

Every backend and both families, also what earlier versions wrote. With --vip, the
other virtual IPs keep their rules; the last one takes the hooks along. A VIP in
VIPNAT_VIP or in a file does not narrow it. An agent that runs must be stopped first.
Exit status: 0 nothing of ours is left, 1 failed, 78 bad configuration.`,
  vrid: `
Examples:
  vipnat vrid 10.0.0.50              prints 51: the last octet and 1
  vipnat vrid fd00::50               the last byte and 1

Exit status: 0 printed, 78 not an address, or one that has no virtual_router_id.`,
  keepalived: `
Examples:
  vipnat keepalived --vip 10.0.0.50
  vipnat keepalived --vip 10.0.0.50 --peers 10.0.0.11,10.0.0.12,10.0.0.13
  vipnat keepalived --vip 10.0.0.50 --interface eth0 --advert 300ms

The configuration goes to standard output, a line for each virtual IP to standard
error. Run it on each master with the same options. Only --output writes a file.
Exit status: 0 printed, 78 bad configuration, or what this host does not tell.`,
  completion: `
Examples:
  source <(vipnat completion bash)
  vipnat completion fish | source

The first line is for bash, and for zsh after compinit. docs/install.md says where
the script belongs so that every new shell has it. The script starts no vipnat.
Exit status: 0 printed, 78 no such shell.`,
  help: `
Examples:
  vipnat help status
  vipnat help manifest daemonset

The same as --help behind the command.
Exit status: 0 printed, 78 no such command.`,
  version: `
Example:
  vipnat version

The same as vipnat --version.
Exit status: 0 printed.`,
  manifest: `
Examples:
  vipnat manifest daemonset --vip 10.0.0.50 | kubectl apply -f -
  vipnat manifest static-pod --vip 10.0.0.50 > vipnat.yaml
  vipnat manifest keepalived --vip 10.0.0.50 --peers 10.0.0.11,10.0.0.12
  vipnat manifest systemd --vip 10.0.0.50 --directory /

See vipnat help manifest KIND for all options of a kind. Those of the configuration become arguments of the agent. Files that they
name are the nodes' own. A static pod is always one of least privilege. keepalived
is a static pod too. systemd is a unit, a file of tmpfiles.d and a drop-in for
keepalived's unit; files of these names that are not vipnat's stay as they are.
Exit status: 0 printed or written, 1 failed, 78 bad configuration.`,
} as const;

/** What help says of options that a command takes beside those that it lists. */
export const moreOptions =
  'Other options of vipnat run are taken too and change nothing here: the line of the agent fits.';
