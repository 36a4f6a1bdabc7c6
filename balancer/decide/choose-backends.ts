import { chooseNear, chooseServing, type Backend } from '../../lib/services/endpoints.ts';
import { type Service } from '../../lib/services/services.ts';
import { type End, type Place } from './balanced-service.ts';

/** The endpoints that this node sends new connections to; null where others are to decide. */
export function chooseBackends(
  service: Service,
  backends: readonly Backend[],
  place: Place,
): readonly Backend[] | null {
  if (!isLocal(service)) return chooseNear(chooseServing(backends), place);
  const here = chooseServing(backends.filter(({ node }) => node === place.node));
  return here.length === 0 && chooseServing(backends).length > 0 ? null : here;
}

/** With policy Local, connections are translated on the endpoint's own node only: those of `onlyOn`. */
export function listDraining(
  backends: readonly Backend[],
  chosen: readonly Backend[],
  onlyOn: string | null,
): readonly End[] {
  const drained = backends.filter(
    (backend) => (backend.isEnding || backend.weight === 0) && !chosen.includes(backend),
  );
  return onlyOn === null ? drained : drained.filter(({ node }) => node === onlyOn);
}

/** Whether endpoints see the clients' own addresses. */
export function isLocal({ spec }: Service): boolean {
  return spec.externalTrafficPolicy === 'Local';
}
