import type { Stage, DemoAgent } from './stage.ts';
import type { Lab } from '../../lab/control-plane/lab.ts';
import { masters, outsider } from '../../../test/support/network/layout.ts';
import { buildComponents } from '../../lab/build/build.ts';
import { defaultOptions } from '../../lab/settings/options.ts';
import { raiseLab } from '../../lab/control-plane/raise.ts';
import type { CommandResult } from '../../../test/support/network/namespaces.ts';
import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { waitForServices } from '../../lab/control-plane/ready.ts';

/** The lab: real etcd, kube-apiserver, kube-proxy and keepalived. */
export class LabStage implements Stage {
  readonly isReal = true;
  readonly holder: string;
  readonly description: readonly string[];
  readonly #lab: Lab;

  private constructor(lab: Lab, holder: string) {
    this.#lab = lab;
    this.holder = holder;
    this.description = [
      `masters  ${masters.map(({ name, addresses }) => `${name} ${addresses.ipv4}`).join(', ')}:`,
      `         etcd, kube-apiserver, kube-proxy ${lab.options.kubernetes} (iptables-nft) and keepalived each`,
      `VIP      ${lab.vip}, held by ${holder}`,
      `client   ${outsider.addresses.ipv4}, outside the cluster`,
    ];
  }

  /** Builds it, the components too where nobody did before. */
  static async create(): Promise<LabStage> {
    const say = (line: string) => {
      process.stderr.write(`${line}\n`);
    };
    await buildComponents(defaultOptions.kubernetes, say);
    const lab = await raiseLab({ ...defaultOptions, name: `demo-${process.pid}` }, { hasAgents: false });
    const [holder = ''] = await lab.listHolders();
    return new LabStage(lab, holder);
  }

  run(host: string, command: readonly string[], input = ''): Promise<CommandResult> {
    return this.#lab.machine(host).run(command, { input });
  }

  async startAgent(host: string, command: readonly string[], logFile: string): Promise<DemoAgent> {
    const service = this.#lab.service(host, 'vipnat');
    const script = 'exec >"$0" 2>&1; exec "$@"';
    await service.start(['sh', '-c', script, logFile, ...command]);
    return {
      async stop() {
        await service.stop();
        // Nobody waits for a service, so nobody has its exit status: this is the last thing it says before.
        return (
          readFileSync(logFile, 'utf8').trimEnd().split('\n').at(-1)?.includes('SIGTERM: stopping') ?? false
        );
      },
    };
  }

  spawn(host: string, command: readonly string[]): ChildProcess {
    return this.#lab.machine(host).spawn(command);
  }

  async startHaproxy(host: string): Promise<void> {
    await this.#lab.start(host, 'haproxy');
  }

  async killApiserver(host: string): Promise<void> {
    await this.#lab.service(host, 'kube-apiserver').stop('KILL');
  }

  async startApiserver(host: string): Promise<void> {
    await this.#lab.start(host, 'kube-apiserver');
  }

  cut(host: string): Promise<void> {
    return this.#lab.cut(host);
  }

  join(host: string): Promise<void> {
    return this.#lab.join(host);
  }

  async syncKubeProxy(host: string): Promise<void> {
    // It looks after chains, not rules: by itself it would notice within an hour.
    await this.#lab.service(host, 'kube-proxy').stop();
    await this.#lab.start(host, 'kube-proxy');
    await sleep(500);
    await waitForServices(this.#lab, [host]);
  }

  close(): Promise<void> {
    return this.#lab.down();
  }
}
