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
  ['--pool', '--pool RANGE'],
  ['--balancer-listen', '--balancer-listen ADDR:PORT'],
  ['--node-address', '--node-address ADDR,…'],
  ['--node-probe-port', '--node-probe-port PORT'],
  ['--gate', '--gate TYPE'],
  ['--inject-gates', '--inject-gates[=METHOD]'],
  ['--webhook-port', '--webhook-port PORT'],
  ['--device', '--device FILE'],
  ['--driver', '--driver DRIVER'],
  ['--credentials', '--credentials PATH'],
  ['--balancer', '--balancer FILE'],
  ['--unit', '--unit NUMBER'],
  ['--only', '--only CHECK'],
  ['--ports', '--ports PORT,…'],
  ['--default-device', '--default-device NAME'],
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
  vipnat plan --vip 10.0.0.50        what vipnat would write on this host, and why
  vipnat run --vip 10.0.0.50         the agent

Exit status: 0 done, or nothing wrong. 1 the command failed.
2 check, status, services, seats, device or doctor found something. 3 doctor found failures.
78 the command line or configuration is wrong.
See vipnat help COMMAND for the options of a command. Each option can also be
a variable (VIPNAT_PROXY_MODE) or a key in the --config file (proxyMode).`;

/** What each command's help says below its options. */
export const commandHelp = {
  run: `
Examples:
  vipnat run --vip 10.0.0.50
  vipnat run --vip 10.0.0.50 --dry-run
  vipnat run --config /etc/vipnat.yaml

When the agent stops, its rules keep working. vipnat cleanup removes them.
Exit status: 0 ended by a signal or done, 1 failed, 78 bad configuration.`,
  plan: `
Examples:
  vipnat plan --vip 10.0.0.50
  vipnat plan --vip 10.0.0.50 --format restore --family ipv4
  vipnat plan --vip 10.0.0.50 --json
  vipnat plan --vip 10.0.0.50 --offline --proxy-mode ipvs --cluster-ip 10.96.0.1

plan changes nothing. Rules go to standard output, all else to standard error.
If an agent runs here, no option is needed: the command takes the agent's options.
Exit status: 0 printed or nothing to change, 1 failed, 78 bad configuration.`,
  check: `
Examples:
  vipnat check --vip 10.0.0.50
  vipnat check --vip 10.0.0.50 --json

If an agent runs here, no option is needed: the command takes the agent's options.
Exit status: 0 in sync, 1 failed, 2 drift, 78 bad configuration.`,
  status: `
Examples:
  vipnat status --vip 10.0.0.50
  vipnat status --vip 10.0.0.50 --json
  vipnat status --vip 10.0.0.50 --watch=5

status needs neither the agent nor the API, and changes nothing.
If an agent runs here, no option is needed: the command takes the agent's options.
Exit status: 0 nothing wrong, 1 failed, 2 not balanced or not in sync, 78 bad configuration.`,
  doctor: `
Examples:
  vipnat doctor --vip 10.0.0.50
  vipnat doctor --vip 10.0.0.50 --json
  vipnat doctor --vip 10.0.0.50 --capture 0s     without listening to VRRP adverts

Use doctor before an installation, and when something is wrong. doctor needs neither
the agent nor the API, changes nothing, and lists what it could not check.
If an agent runs here, no option is needed: the command takes the agent's options.
Exit status: 0 nothing wrong, 1 failed, 2 warnings, 3 failures found, 78 bad configuration.`,
  drain: `
Examples:
  vipnat drain                       before maintenance of this master
  vipnat drain --dry-run             what drain would change

The apiserver of this host gets no new connections, and open ones continue. The virtual
IPs move to another master. Agents see it within two seconds. It lasts until vipnat
undrain, also over a restart of the agent and of the host. Run it on the master itself.
Exit status: 0 drained, 1 failed or refused, 78 bad configuration.`,
  undrain: `
Examples:
  vipnat undrain                     after maintenance of this master
  vipnat undrain --dry-run           what undrain would change

The apiserver of this host gets new connections again, once it has given three good
answers. The virtual IPs stay where they are.
Exit status: 0 no longer drained, 1 failed, 78 bad configuration.`,
  cleanup: `
Examples:
  vipnat cleanup
  vipnat cleanup --dry-run           what cleanup would remove
  vipnat cleanup --vip 10.0.0.50     only the rules of this virtual IP

Removes the rules of vipnat from every backend and both families, also rules of earlier
versions, and ends a drain. With --vip, other virtual IPs keep their rules. The hooks go
with the last virtual IP. Only the flag --vip counts here, not VIPNAT_VIP or a file.
Stop a running agent or balancer first.
Exit status: 0 no rule of vipnat is left, 1 failed, 78 bad configuration.`,
  balancer: `
Examples:
  vipnat balancer                    in a pod, with its service account
  vipnat balancer --kubeconfig /etc/vipnat/kubeconfig --node-name worker-1

The balancer serves Services of type LoadBalancer that have an address. It writes the
tables vipnat-lb of nftables, and touches nothing of vipnat run. When it stops, its
rules work for 30 more seconds. Then kube-proxy's rules count.
Exit status: 0 ended by a signal, 1 failed, 78 bad configuration.`,
  services: `
Examples:
  vipnat services --kubeconfig /etc/kubernetes/admin.conf
  vipnat services default/web        one Service, with its pods, nodes and events
  vipnat services --watch
  vipnat services --json

services reads the Kubernetes API and asks no node. It lists the Services of vipnat,
and those without a class that have no address. The reason is printed below a Service
that does not work.
Exit status: 0 all Services work, 1 failed, 2 one does not, or no controller leads,
78 bad configuration.`,
  seats: `
Examples:
  vipnat seats --kubeconfig /etc/kubernetes/admin.conf
  vipnat seats --json
  vipnat seats drain worker-1        the node gives up its seats, and gets none
  vipnat seats undrain worker-1      the node may hold seats again
  vipnat seats rebalance             each seat goes to the first of its nodes

A seat is a part of a pool's addresses, which one node holds at a time. seats reads the
Kubernetes API and asks no node. drain, undrain and rebalance change an annotation of
each AddressPool, and wait until the seats have moved.
Exit status: 0 each seat has one node, 1 failed, 2 one has none or two,
78 bad configuration.`,
  device: `
Examples:
  vipnat device state --device device.yaml --credentials ./secret
  vipnat device list --device device.yaml --json
  vipnat device plan --device device.yaml --balancer web.yaml
  vipnat device conformance --device device.yaml --driver ./driver.mjs
  vipnat device configuration --device device.yaml --credentials ./secret --unit 1

state, list and plan write nothing. list prints what the device has of the cluster that
the file names, plan what a Service would change. conformance tries a driver on a device
without clients. It makes balancers for two clusters of its own, and removes them again.
configuration prints a shell script that writes the files of a unit of HAProxy.
Without --credentials, the variables VIPNAT_DEVICE_USERNAME and VIPNAT_DEVICE_PASSWORD
have the credentials.
Exit status: 0 printed, or no check failed. 1 the device failed. 2 a check failed, or
state found something. 78 the command line or a file is wrong.`,
  controller: `
Examples:
  vipnat controller --kubeconfig controller.conf
  vipnat controller --namespace vipnat-system --default-class
  vipnat controller --gate example.com/load-balancer-ready

Gives addresses of AddressPools to Services of type LoadBalancer, and withdraws them.
Start it as often as you like: one process leads, and the others wait. It needs no
root and no other rights on its host. In a pod it takes the pod's service account.
vipnat manifest services prints all that it needs. --vip names addresses that no pool
may have, such as the API's virtual IP. Pods with the readiness gate
vipnat.io/load-balancer-ready, or one of --gate, are ready when nodes serve them.
It also configures load balancers outside of the cluster. Each is a
LoadBalancerDevice. Services choose one by the class vipnat.io/NAME.
Exit status: 0 ended by a signal, 1 failed, 78 bad configuration.`,
  vrid: `
Examples:
  vipnat vrid 10.0.0.50              prints 51: the last byte plus 1
  vipnat vrid fd00::50               prints 81: 0x50 plus 1

Exit status: 0 printed, 78 not an address, or an address without a virtual_router_id.`,
  keepalived: `
Examples:
  vipnat keepalived --vip 10.0.0.50
  vipnat keepalived --vip 10.0.0.50 --peers 10.0.0.11,10.0.0.12,10.0.0.13
  vipnat keepalived --vip 10.0.0.50 --interface eth0 --advert 300ms

The configuration goes to standard output, a line for each virtual IP to standard
error. Run it on each master with the same options. Only --output writes a file.
Exit status: 0 printed, 78 bad configuration, or a value that this host does not show.`,
  completion: `
Examples:
  source <(vipnat completion bash)
  vipnat completion fish | source

The first line is for bash, and for zsh after compinit. docs/install.md says where
to put the script for every new shell. The script itself never runs vipnat.
Exit status: 0 printed, 78 no such shell.`,
  help: `
Examples:
  vipnat help status
  vipnat help manifest daemonset

The same as --help after the command.
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
  vipnat manifest services --pool 10.0.9.10-10.0.9.99 | kubectl apply -f -

See vipnat help manifest KIND for all options of a kind. Options of the configuration
become arguments of the agent. Paths in them are paths on the nodes. static-pod always
has least privilege. keepalived is a static pod too. systemd prints a unit, a file of
tmpfiles.d and a drop-in for keepalived's unit. vipnat never replaces a file of other
software.
Exit status: 0 printed or written, 1 failed, 78 bad configuration.`,
} as const;

/** What help says of options that a command takes beside those that it lists. */
export const moreOptions =
  'Other options of vipnat run have no effect here. You can paste the options of the agent.';
