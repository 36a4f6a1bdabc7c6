import { type Clock } from '../../lib/control/clock.ts';
import { type Random } from '../../lib/control/random.ts';
import { type VipnatError } from '../../lib/text/errors.ts';
import { type ApiView, type FollowedApi, type Following } from './cluster-api.ts';
import { Informer } from '../../lib/kubernetes/informer.ts';
import { type ApiLog } from './api-log.ts';
import { type ApiObject } from '../../lib/kubernetes/api-object.ts';
import { type EndpointSlice, type Resource, type Service } from '../../lib/kubernetes/resources.ts';
import { type ApiRoute, type Connection } from '../../lib/kubernetes/route.ts';
import { endpointSlices, services } from './kubernetes-objects.ts';
import { toApiView } from './view.ts';
import { type KnownApiservers } from '../../lib/kubernetes/servers.ts';

/** What the agent's source needs of the world, and its listeners. */
export interface WatchedApiOptions {
  readonly route: ApiRoute;
  readonly clock: Clock;
  readonly random: Random;
  readonly report: ApiLog;
  /** Told of every change of the view, after it: a hint to look. */
  readonly onChange: () => void;
}

/** Follows the API by list and watch, from the first `getView` on. Losing it leaves the view as it was, but for `isCurrent` (I10). */
export class WatchedApi implements FollowedApi {
  readonly #options: WatchedApiOptions;
  readonly #followers: readonly Pick<Informer<ApiObject>, 'start' | 'wake' | 'failOver' | 'stop'>[];
  readonly #followed = new Set<string>();
  /** Why the Service may not be read, which only its affinity and ClusterIPs need; null when it may. */
  #refusal: VipnatError | null = null;
  /** Where the EndpointSlice was last followed. */
  #connection: Connection | null = null;
  #slices: readonly EndpointSlice[] | null = null;
  #service: Service | null = null;
  #isStarted = false;
  #isCurrent = true;
  #following: Following;
  #view: ApiView | null = null;

  constructor(options: WatchedApiOptions) {
    this.#options = options;
    this.#following = { isFollowed: false, since: options.clock.now() };
    this.#followers = [
      this.#follow(endpointSlices, (objects) => {
        this.#slices = objects;
      }),
      this.#follow(services, ([service = null]) => {
        this.#service = service;
      }),
    ];
  }

  get view(): ApiView | null {
    return this.#view;
  }

  get following(): Following {
    return this.#following;
  }

  getView(known: KnownApiservers): ApiView | null {
    const hasOthers = this.#options.route.setServers(known);
    if (!this.#isStarted) for (const follower of this.#followers) follower.start();
    else if (hasOthers) for (const follower of this.#followers) follower.wake();
    this.#isStarted = true;
    return this.#view;
  }

  setUnhealthy(unwell: ReadonlySet<string>): void {
    this.#options.route.setUnhealthy(unwell);
    for (const follower of this.#followers) follower.failOver();
  }

  stop(): void {
    for (const follower of this.#followers) follower.stop();
  }

  #follow<T extends ApiObject>(resource: Resource<T>, take: (objects: readonly T[]) => void): Informer<T> {
    return new Informer({
      ...this.#options,
      resource,
      onChanges: (_changes, objects) => {
        take([...objects.values()]);
        this.#update();
      },
      onUnreadable: (unreadable) => {
        this.#options.report.unreadable(resource.kind, unreadable);
      },
      onLost: (problem) => {
        this.#lose(resource.kind, problem);
      },
      onFollowed: (connection) => {
        this.#regain(resource.kind, connection);
      },
    });
  }

  #lose(kind: string, problem: VipnatError): void {
    if (kind === services.kind && problem.code === 'API_FORBIDDEN') {
      // The first time the EndpointSlice may be refused a moment later: then that is what is said.
      const isSaidAgain = this.#refusal !== null;
      this.#refusal = problem;
      if (isSaidAgain) this.#sayFollowed();
      return;
    }
    this.#followed.delete(kind);
    this.#setFollowed(false);
    this.#options.report.lost(problem, this.#view !== null);
    this.#setCurrent(false);
  }

  #regain(kind: string, connection: Connection): void {
    this.#followed.add(kind);
    if (kind === endpointSlices.kind) this.#connection = connection;
    else this.#refusal = null;
    this.#sayFollowed();
  }

  /** It is back when all kinds are that may be read, the EndpointSlice among them. */
  #sayFollowed(): void {
    const isServiceKnown = this.#followed.has(services.kind) || this.#refusal !== null;
    if (this.#connection === null || !this.#followed.has(endpointSlices.kind) || !isServiceKnown) return;
    this.#options.report.serviceRefused(this.#refusal);
    if (this.#following.isFollowed) return;
    this.#setFollowed(true);
    this.#options.report.followed(this.#connection);
    this.#setCurrent(true);
  }

  #setFollowed(isFollowed: boolean): void {
    if (this.#following.isFollowed === isFollowed) return;
    this.#following = { isFollowed, since: this.#options.clock.now() };
  }

  #setCurrent(isCurrent: boolean): void {
    this.#isCurrent = isCurrent;
    if (this.#view !== null) this.#update();
  }

  #update(): void {
    const before = JSON.stringify(this.#view);
    this.#view = toApiView(this.#slices, this.#service, this.#isCurrent);
    if (JSON.stringify(this.#view) !== before) this.#options.onChange();
  }
}
