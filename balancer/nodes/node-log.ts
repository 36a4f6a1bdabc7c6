import { type Address } from '../../lib/address/address.ts';
import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { type Logger } from '../../lib/telemetry/logger.ts';
import { formatAge } from '../../lib/text/age.ts';
import { findErrorCode } from '../../lib/text/errors.ts';
import { type NodeListener } from './node-listener.ts';

/** Says in the log what becomes of other nodes. */
export class NodeLog implements NodeListener {
  readonly #logger: Logger;
  readonly #port: number;

  /** `port` is where nodes are asked. */
  constructor(logger: Logger, port: number) {
    this.#logger = logger;
    this.#port = port;
  }

  out(node: string, address: Address): void {
    this.#logger.warn(
      `node ${node} (${address.text}) does not answer: its pods get no new connection from this node`,
    );
  }

  lost(node: string): void {
    this.#logger.warn(`node ${node} still does not answer: open connections to its pods are forgotten`);
  }

  returns(node: string): void {
    this.#logger.info(
      `node ${node} answers again. It may have started again, so its pods get connections after its balancer has reported, or after a minute`,
    );
  }

  back(node: string, silentMs: number): void {
    this.#logger.info(`node ${node} is in use again after ${formatAge(silentMs)}: its pods get connections`);
  }

  neverAnswers(node: string, address: Address): void {
    const place = formatEndpoint({ family: address.family, address: address.text, port: this.#port });
    this.#logger.warn(
      `node ${node} does not answer at ${place}, and never has: a firewall may drop what is sent there. If this node dies, its pods stay in use until Kubernetes marks them as not ready. Let TCP port ${this.#port} pass between nodes, or choose another port by --node-probe-port`,
    );
  }

  unlisted(error: unknown): void {
    if (error === null) {
      this.#logger.info('vipnat can list the Leases of nodes again');
      return;
    }
    this.#logger.warn(
      `vipnat does not learn where other nodes are: ${(error as Error).message}. If such a node dies, its pods stay in use until Kubernetes marks them as not ready`,
      { code: findErrorCode(error) },
    );
  }
}
