import { toVipnatError, VipnatError } from '../../lib/text/errors.ts';
import { type Clock } from '../../lib/control/clock.ts';
import { type ApiView, type ClusterApi } from './cluster-api.ts';
import { listObjects } from '../../lib/kubernetes/list-objects.ts';
import { refuseService } from './api-log.ts';
import { endpointSlices, services } from './kubernetes-objects.ts';
import { type ApiRoute } from '../../lib/kubernetes/route.ts';
import { toApiView } from './view.ts';
import { type KnownApiservers } from '../../lib/kubernetes/servers.ts';

/** What the source of a one-shot command needs of the world, and its listener. */
export interface ListedApiOptions {
  readonly route: ApiRoute;
  readonly clock: Clock;
  /** Called once if no server answered well, or only in part; the message says what follows. */
  readonly onProblem: (problem: VipnatError) => void;
}

/** A person waits. */
const patienceMs = 2000;

/** Lists once, at the first `getView`, in at most two seconds; later calls get the same answer. */
export class ListedApi implements ClusterApi {
  readonly #options: ListedApiOptions;
  #answer: Promise<ApiView | null> | null = null;
  #refusal: VipnatError | null = null;

  constructor(options: ListedApiOptions) {
    this.#options = options;
  }

  getView(known: KnownApiservers): Promise<ApiView | null> {
    this.#options.route.setServers(known);
    this.#answer ??= this.#ask();
    return this.#answer;
  }

  async #ask(): Promise<ApiView | null> {
    const { clock, onProblem } = this.#options;
    const patience = new AbortController();
    const cancel = clock.schedule(patienceMs, () => {
      patience.abort();
    });
    const answer = await this.#askInTurn(patience.signal).finally(cancel);
    if (answer instanceof VipnatError) {
      onProblem(addConsequence(answer));
      return null;
    }
    if (this.#refusal !== null) onProblem(refuseService(this.#refusal));
    return answer;
  }

  /** One server after the other; answers what was wrong with the first when none does. */
  async #askInTurn(signal: AbortSignal): Promise<ApiView | VipnatError> {
    const { route } = this.#options;
    let problem: VipnatError | null = null;
    for (let tries = 0; tries < route.count; tries += 1) {
      const answer = await this.#list(signal).catch((error: unknown) =>
        toVipnatError(error, 'API_ANSWER_UNEXPECTED', 'reading from the API'),
      );
      if (!(answer instanceof VipnatError)) return answer;
      problem ??= answer;
    }
    return problem ?? silence();
  }

  async #list(signal: AbortSignal): Promise<ApiView> {
    const { route, clock } = this.#options;
    const connection = await route.choose();
    const limitMs = patienceMs / route.count;
    const options = { ...connection, clock, forbidden: route.forbidden, signal, limitMs };
    try {
      const [slices, found] = await Promise.all([
        listObjects(endpointSlices, options),
        listObjects(services, options).catch((error: unknown) => this.#goWithoutService(error)),
      ]);
      const [service = null] = found?.objects ?? [];
      return toApiView(slices.objects, service, true);
    } catch (error) {
      route.markFailed(connection.server);
      throw signal.aborted ? silence() : error;
    }
  }

  /** The apiservers are known without it. */
  #goWithoutService(error: unknown): null {
    if (!(error instanceof VipnatError) || error.code !== 'API_FORBIDDEN') throw error;
    this.#refusal = error;
    return null;
  }
}

function addConsequence(problem: VipnatError): VipnatError {
  const { code, message } = problem;
  const consequence = 'vipnat uses other sources of apiservers';
  return new VipnatError(code, `${message}. ${consequence}`, { cause: problem });
}

function silence(): VipnatError {
  return new VipnatError('API_UNREACHABLE', `the API did not answer within ${patienceMs / 1000} s`);
}
