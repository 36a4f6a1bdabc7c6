import { locateProgram } from '../shared/go-program.ts';
import { masters, serviceNetworks, outsider, apiserverPort } from '../../../test/support/network/layout.ts';
import type { Lab } from '../../lab/control-plane/lab.ts';
import { runShell } from '../../lab/machines/machine.ts';
import { type Setting, type PathName, listTargets } from './settings.ts';
import { vipnatCommand } from '../../lab/components/agent.ts';
import { waitUntil } from '../shared/wait.ts';
import { type Workload, chooseTimes } from './workloads.ts';
import type { Window } from './record.ts';
import type { Component } from '../../lab/components/component.ts';
import { Service } from '../../lab/machines/service.ts';

const program = locateProgram('datapath');

const masterNames = masters.map(({ name }) => name);

/**
 * A client's ports come again within seconds, and behind the holder's address those of all ways together. By default
 * an apiserver would remember the connections that have ended for a minute, and take a new one for a late packet of
 * them; the connection table would keep them for two, and be full before the first round is over.
 */
const forgetting = `echo 0 > /proc/sys/net/ipv4/tcp_max_tw_buckets
echo 1 > /proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait`;

/** A lab to measure in. */
export class Bed {
  readonly #lab: Lab;
  #holder = '';
  #hasHaproxy = false;

  /** One whose agents run. */
  constructor(lab: Lab) {
    this.#lab = lab;
  }

  /** The master that holds the VIP, and that the client asks for the ClusterIP. */
  get holder(): string {
    return this.#holder;
  }

  /** What the hosts need for many connections; HAProxy where it is to be measured. Once for each lab. */
  async prepare(hasHaproxy: boolean): Promise<void> {
    await Promise.all(masterNames.map((name) => runShell(this.#lab.machine(name), forgetting)));
    await this.#runAtClient('echo 1024 65535 > /proc/sys/net/ipv4/ip_local_port_range');
    this.#hasHaproxy = hasHaproxy;
    if (hasHaproxy) for (const name of masterNames) await this.#lab.start(name, 'haproxy');
  }

  /** Puts the server that has nothing to do in kube-apiserver's place, on all masters. */
  async replaceApiservers(): Promise<void> {
    await Promise.all(masterNames.map((name) => this.#lab.service(name, 'kube-apiserver').stop('KILL')));
    await Promise.all(masterNames.map((name) => this.#startServer(name)));
  }

  /** Has the agents balance in one way, and waits until every way of the setting leads to all three masters. */
  async arrange({ mode, paths }: Setting): Promise<void> {
    for (const name of masterNames) {
      await this.#lab.service(name, 'vipnat').stop();
      await this.#lab.start(name, 'vipnat', { agentArguments: ['--mode', mode] });
    }
    const check = vipnatCommand('check', '--vip', this.#lab.vip, '--mode', mode);
    await waitUntil(`every agent balances the VIP over three apiservers by ${mode}`, async () => {
      const checks = await Promise.all(masterNames.map((name) => this.#lab.machine(name).run(check)));
      return checks.every(({ exitCode, stdout }) => exitCode === 0 && stdout.includes('3 apiserver'));
    });
    await waitUntil('one master holds the VIP', async () => {
      const holders = await this.#lab.listHolders();
      this.#holder = holders[0] ?? '';
      return holders.length === 1;
    });
    const { family } = this.#lab.options;
    const via = masters.find(({ name }) => name === this.#holder)?.addresses[family] ?? '';
    await this.#runAtClient(`ip route replace ${serviceNetworks[family]} via ${via}`);
    for (const path of paths) await waitUntil(`${path} leads to three apiservers`, () => this.#isOpen(path));
  }

  /** Whether the VIP is where it was when the lab was arranged. */
  async isSteady(): Promise<boolean> {
    return (await this.#lab.listHolders()).join() === this.#holder;
  }

  /** One window. */
  async measure(
    path: PathName,
    { isNew, isTls }: Pick<Workload, 'isNew' | 'isTls'>,
    clients: number,
  ): Promise<Window> {
    const { warmUpMs, windowMs } = chooseTimes(clients);
    return await this.#load([
      ...[`-targets=${listTargets(this.#lab, path).join(',')}`, `-clients=${clients}`],
      ...[`-new=${isNew}`, `-tls=${isTls}`, `-warm-up=${warmUpMs}ms`, `-window=${windowMs}ms`],
    ]);
  }

  /** What the machine does without any client: seconds of one processor each second. */
  async measureRest(): Promise<number> {
    const { seconds, machine } = await this.#load(['-clients=0', '-window=3s']);
    return machine.busy / seconds;
  }

  async #load(words: readonly string[]): Promise<Window> {
    const watched: Component[] = this.#hasHaproxy ? ['vipnat', 'haproxy'] : ['vipnat'];
    const pids = watched.map((name) => `${name}=${this.#lab.service(this.#holder, name).readPid()}`);
    const command = [program, 'load', ...words, `-watch=${pids.join(',')}`];
    const { exitCode, stdout, stderr } = await this.#lab.machine(outsider.name).run(command);
    if (exitCode !== 0) throw new Error(`${command.join(' ')}: exit status ${exitCode}: ${stderr}`);
    return JSON.parse(stdout) as Window;
  }

  async #isOpen(path: PathName): Promise<boolean> {
    const { errors, servers } = await this.#load([
      ...[`-targets=${listTargets(this.#lab, path).join(',')}`, '-clients=3'],
      ...['-new', '-tls', '-window=500ms'],
    ]);
    return Object.keys(errors).length === 0 && masterNames.every((name) => name in servers);
  }

  async #startServer(name: string): Promise<void> {
    const { certificate, key } = this.#lab.certificates.serving(name);
    await new Service(this.#lab.machine(name), 'server', this.#lab.folder).start([
      ...[program, 'serve', `-listen=0.0.0.0:${apiserverPort}`, `-name=${name}`],
      ...[`-certificate=${certificate}`, `-key=${key}`],
    ]);
  }

  async #runAtClient(script: string): Promise<void> {
    await runShell(this.#lab.machine(outsider.name), script);
  }
}
