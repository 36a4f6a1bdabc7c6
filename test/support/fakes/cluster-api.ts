import type { FollowedApi, ApiView, Following } from '../../../agent/api.ts';
import type { KnownApiservers } from '../../../lib/kubernetes/route.ts';
import { type Family, sortEndpoints } from '../../../lib/net.ts';
import { toEndpoint } from './endpoints.ts';

/**
 * A Kubernetes API in memory that tests turn by hand. As the real source it says nothing before it is consulted, keeps
 * its last word while it is lost, tells only of changes, and is silent once stopped.
 */
export class FakeClusterApi implements FollowedApi {
  /** Who was last named to it as one to ask. */
  known: KnownApiservers | null = null;
  /** Who is down, as it was last told. */
  unwell: ReadonlySet<string> = new Set();
  isStopped = false;
  readonly #onChange: () => void;
  #reported: Omit<ApiView, 'isCurrent'> | null = null;
  #isLost = false;
  #view: ApiView | null = null;

  constructor(onChange: () => void = () => undefined) {
    this.#onChange = onChange;
  }

  get view(): ApiView | null {
    return this.known === null ? null : this.#view;
  }

  /** From its first word on; a fake has no time of its own. */
  get following(): Following {
    return { isFollowed: this.view?.isCurrent === true, since: 0 };
  }

  getView(known: KnownApiservers): ApiView | null {
    if (this.isStopped) throw new Error('consulted after its end');
    this.known = known;
    return this.#view;
  }

  setUnhealthy(unwell: ReadonlySet<string>): void {
    this.unwell = unwell;
  }

  stop(): void {
    this.isStopped = true;
  }

  /** The EndpointSlice of a family changes; the Service too, where more is said. */
  list(family: Family, endpoints: readonly string[], more: Partial<ApiView> = {}): void {
    const before = this.#reported ?? { endpoints: {}, clusterIps: {}, affinitySeconds: null, refused: [] };
    const found = {
      value: sortEndpoints(endpoints.map((text) => toEndpoint(text))),
      seenIn: "the API's EndpointSlice kubernetes",
    };
    this.#reported = { ...before, ...more, endpoints: { ...before.endpoints, [family]: found } };
    this.#update();
  }

  lose(): void {
    this.#isLost = true;
    this.#update();
  }

  regain(): void {
    this.#isLost = false;
    this.#update();
  }

  #update(): void {
    // Whoever has lost it hears of no change either.
    if (this.#reported === null || (this.#isLost && this.#view?.isCurrent === false)) return;
    const view =
      this.#isLost && this.#view !== null
        ? { ...this.#view, isCurrent: false }
        : { ...this.#reported, isCurrent: !this.#isLost };
    if (JSON.stringify(view) === JSON.stringify(this.#view)) return;
    this.#view = view;
    if (this.known !== null && !this.isStopped) this.#onChange();
  }
}
