import { fileURLToPath } from 'node:url';
import type { Cluster } from '../../network/cluster.ts';
import { type Truth, type Apiserver, type ApiManner, type Condition, isGood } from './truth.ts';
import { TemporaryFolder } from '../../network/at-end.ts';
import type { ChildProcess } from 'node:child_process';
import { createCertificates } from '../../../../tools/lab/certificates/certificates.ts';
import { addressOf } from '../../network/layout.ts';
import { once } from 'node:events';
import { writeKubeconfig } from '../../network/kubeconfig.ts';
import { renderBlackhole, openBlackhole } from '../world/blackhole.ts';

const apiProgram = fileURLToPath(new URL('../../network/kube-api.ts', import.meta.url));

/** Where the Kubernetes API is: beside m3's apiserver, which has nothing but its name to say. */
const apiHost = 'm3';
const apiPort = 16_443;

/** The apiservers and the Kubernetes API of a miniature cluster, which fail as they do in life. */
export class ControlPlane {
  readonly #cluster: Cluster;
  readonly #truth: Truth;
  readonly #folder = new TemporaryFolder('api');
  #api: ChildProcess | null = null;

  constructor(cluster: Cluster, truth: Truth) {
    this.#cluster = cluster;
    this.#truth = truth;
  }

  /** Starts the Kubernetes API; answers a kubeconfig for it. */
  async startApi(): Promise<string> {
    const certificates = await createCertificates(this.#folder.path);
    const { certificate, key } = certificates.serving(apiHost);
    const api = this.#cluster.start(apiHost, [
      ...[process.execPath, apiProgram, addressOf(apiHost), String(apiPort), certificate, key],
    ]);
    this.#api = api;
    api.stderr?.pipe(process.stderr);
    if (api.stdout !== null) await once(api.stdout, 'data');
    await this.list(this.#truth.api.list);
    return writeKubeconfig(
      this.#folder.path,
      `https://${addressOf(apiHost)}:${apiPort}`,
      certificates.authority,
    );
  }

  async list(names: readonly Apiserver[]): Promise<void> {
    this.#truth.api.list = names;
    await this.#notify(`list ${names.map(addressOf).join(' ')}`);
  }

  async answer(manner: ApiManner): Promise<void> {
    this.#truth.api.manner = manner;
    await this.#notify(`answer ${manner}`);
  }

  async become(name: Apiserver, condition: Condition): Promise<void> {
    const { conditions, ejections } = this.#truth;
    if (conditions[name] === condition) return;
    if (isGood(conditions[name]) && !isGood(condition)) ejections.note(name);
    await this.#heal(name);
    conditions[name] = condition;
    const apiserver = this.#cluster.apiserver(name);
    if (condition === 'dead') await apiserver.kill();
    else if (condition === 'frozen') apiserver.freeze();
    else if (condition === 'blackholed') await this.#shell(name, renderBlackhole());
    else apiserver.answer(condition);
  }

  remove(): void {
    this.#folder.remove();
  }

  async #heal(name: Apiserver): Promise<void> {
    const apiserver = this.#cluster.apiserver(name);
    if (this.#truth.conditions[name] === 'frozen') apiserver.thaw();
    if (this.#truth.conditions[name] === 'blackholed') await this.#shell(name, openBlackhole);
    await apiserver.start();
    apiserver.answer('well');
  }

  async #shell(name: Apiserver, script: string): Promise<void> {
    await this.#cluster.shell(name, script);
  }

  async #notify(line: string): Promise<void> {
    const api = this.#api;
    if (api?.stdin == null || api.stdout === null) throw new Error('the API does not run');
    const answer = once(api.stdout, 'data');
    api.stdin.write(`${line}\n`);
    await answer;
  }
}
