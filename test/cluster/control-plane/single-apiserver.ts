import { execa } from 'execa';
import { type Certificates, createCertificates } from '../../../tools/lab/certificates/certificates.ts';
import { defaultOptions } from '../../../tools/lab/settings/options.ts';
import { buildComponents, locateComponents } from '../../../tools/lab/build/build.ts';
import { tell } from '../../support/lab/test-lab.ts';
import { mkdtempSync, writeFileSync, readFileSync, rmSync } from 'node:fs';
import { join, basename } from 'node:path';
import { tmpdir } from 'node:os';
import { findFreePort } from '../../support/network/free-port.ts';
import { writeKubeconfig as writeNamed } from '../../support/network/kubeconfig.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { type ApiQuestion, type ApiAnswer, toContentType } from '../../../tools/lab/control-plane/api.ts';
import { request } from 'node:https';

const startMs = 60_000;
const answerMs = 10_000;

/** A program that runs until it is killed. */
export interface Process extends PromiseLike<unknown> {
  readonly pid?: number | undefined;
  kill(signal: NodeJS.Signals): boolean;
}

/** Starts a program whose lines go to a file. It ends with this process at the latest. */
export function startProcess([program = '', ...args]: readonly string[], logFile: string): Process {
  const output = { file: logFile } as const;
  const options = { reject: false, stdin: 'ignore', stdout: output, stderr: output, cleanup: true } as const;
  return execa(program, args, options);
}

/** One etcd and one kube-apiserver at loopback addresses: a Kubernetes API without anything that runs pods. */
export class SingleApiserver {
  readonly folder: string;
  readonly port: number;
  readonly #certificates: Certificates;
  readonly #processes: Process[];

  private constructor(
    folder: string,
    port: number,
    { certificates, processes }: { certificates: Certificates; processes: Process[] },
  ) {
    this.folder = folder;
    this.port = port;
    this.#certificates = certificates;
    this.#processes = processes;
  }

  /** Starts both, and waits until the API answers. It notes who asked for what, see `readAudit`. */
  static async start(): Promise<SingleApiserver> {
    const release = process.env['LAB_KUBERNETES'] ?? defaultOptions.kubernetes;
    await buildComponents(release, tell);
    const programs = locateComponents(release);
    const folder = mkdtempSync(join(tmpdir(), 'vipnat-apiserver-'));
    writeFileSync(join(folder, 'audit-policy.json'), JSON.stringify(auditPolicy));
    const certificates = await createCertificates(folder);
    const [client, peer, port] = [await findFreePort(), await findFreePort(), await findFreePort()];
    const run = (program: string, ...args: readonly string[]): Process =>
      startProcess([program, ...args], join(folder, `${basename(program)}.log`));
    const processes = [
      run(
        programs.etcd,
        ...['--name=one', `--data-dir=${join(folder, 'etcd')}`, '--log-level=warn', '--unsafe-no-fsync'],
        ...['client', 'peer'].map(
          (kind) => `--listen-${kind}-urls=http://127.0.0.1:${kind === 'peer' ? peer : client}`,
        ),
        `--advertise-client-urls=http://127.0.0.1:${client}`,
        `--initial-advertise-peer-urls=http://127.0.0.1:${peer}`,
        `--initial-cluster=one=http://127.0.0.1:${peer}`,
      ),
      run(programs['kube-apiserver'], ...toArguments(folder, certificates, { client, port })),
    ];
    const api = new SingleApiserver(folder, port, { certificates, processes });
    await waitFor(async () => {
      const { code, object } = await api.ask({ method: 'GET', path: '/api/v1/namespaces/default' });
      return code === 200 && object.kind === 'Namespace';
    }, startMs).catch(async (error: unknown) => {
      await api.stop();
      throw error;
    });
    return api;
  }

  /** Asks as the administrator, or as whose token is given; answers whatever is answered, 0 for nothing. */
  ask(asked: ApiQuestion): Promise<ApiAnswer> {
    const { method, path, object, token } = asked;
    const { admin, authority } = this.#certificates;
    const identity =
      token === undefined ? { cert: readFileSync(admin.certificate), key: readFileSync(admin.key) } : {};
    const headers = {
      'content-type': toContentType(asked),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
    return new Promise((resolve) => {
      const question = request(
        {
          ...{ host: '127.0.0.1', port: this.port, method, path, headers, agent: false, timeout: answerMs },
          ...{ ca: readFileSync(authority), ...identity },
        },
        (response) => {
          let text = '';
          response.setEncoding('utf8');
          response.on('data', (part: string) => (text += part));
          response.on('end', () => {
            resolve({ code: response.statusCode ?? 0, object: readObject(text) });
          });
        },
      );
      question.on('timeout', () => question.destroy(new Error('no answer')));
      question.on('error', ({ message }) => {
        resolve({ code: 0, object: { kind: 'Status', message } });
      });
      question.end(object === undefined ? undefined : JSON.stringify(object));
    });
  }

  /** The requests that were answered so far. A watch counts from its beginning. */
  readAudit(): AuditEvent[] {
    const lines = readFileSync(join(this.folder, 'audit.log'), 'utf8').split('\n');
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as AuditEvent);
  }

  /** The certificate and the key that it serves with, and by whose authority. */
  get pair(): { readonly certificate: string; readonly key: string; readonly authority: string } {
    return { ...this.#certificates.serving('m1'), authority: this.#certificates.authority };
  }

  /** The path of a kubeconfig for the holder of a token, of another port if need be. */
  writeKubeconfig(name: string, token: string, port = this.port): string {
    const server = `https://127.0.0.1:${port}`;
    const { authority } = this.#certificates;
    return writeNamed(this.folder, server, authority, { name: `${name}.kubeconfig`, token });
  }

  /** Ends both, and removes what they wrote. */
  async stop(): Promise<void> {
    for (const one of this.#processes) one.kill('SIGKILL');
    await Promise.all(this.#processes);
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

interface AuditEvent {
  readonly user: { readonly username: string };
  readonly verb: string;
  readonly objectRef?: {
    readonly apiGroup?: string;
    readonly resource: string;
    readonly subresource?: string;
    readonly namespace?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code: number };
}

const auditPolicy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [{ level: 'Metadata', userGroups: ['system:serviceaccounts'] }],
};

function toArguments(
  folder: string,
  certificates: Certificates,
  { client, port }: { readonly client: number; readonly port: number },
): string[] {
  const { certificate, key } = certificates.serving('m1');
  const serviceAccounts = certificates.serviceAccountKey;
  return [
    ...[`--etcd-servers=http://127.0.0.1:${client}`, '--bind-address=127.0.0.1', `--secure-port=${port}`],
    // A loopback address is no endpoint of a Service, and nobody needs one here.
    ...['--advertise-address=127.0.0.1', '--endpoint-reconciler-type=none'],
    '--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112',
    ...[`--tls-cert-file=${certificate}`, `--tls-private-key-file=${key}`],
    ...[`--client-ca-file=${certificates.authority}`, '--authorization-mode=Node,RBAC'],
    `--service-account-key-file=${serviceAccounts}`,
    `--service-account-signing-key-file=${serviceAccounts}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    `--cert-dir=${join(folder, 'apiserver')}`,
    ...[
      `--audit-policy-file=${join(folder, 'audit-policy.json')}`,
      `--audit-log-path=${join(folder, 'audit.log')}`,
    ],
  ];
}

function readObject(text: string): ApiAnswer['object'] {
  try {
    return JSON.parse(text) as ApiAnswer['object'];
  } catch {
    return {};
  }
}
