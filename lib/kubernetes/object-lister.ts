import { type Clock } from '../control/clock.ts';
import { VipnatError } from '../text/errors.ts';
import { type ApiObject } from './api-object.ts';
import { VersionGoneError } from './errors.ts';
import { listObjects } from './list-objects.ts';
import { type Resource } from './resources.ts';
import { type ApiRoute, type Connection } from './route.ts';

/** Lists all objects of a kind, for a command that asks and ends. Rejects with a VipnatError, see listObjects. */
export type ListAll = <T extends ApiObject>(resource: Resource<T>) => Promise<readonly T[]>;

/** For each page. An apiserver answers in milliseconds. */
const limitMs = 5000;

/** A version is forgotten after minutes, a list takes seconds: more than one further try helps nobody. */
const maxLists = 2;

/** Lists by a route: an apiserver that does not answer is passed over for the next one, until all have been asked. */
export function createLister(route: ApiRoute, clock: Clock, signal: AbortSignal): ListAll {
  async function list<T extends ApiObject>(connection: Connection, resource: Resource<T>, lists = 1) {
    try {
      const options = { ...connection, clock, forbidden: route.forbidden, signal, limitMs };
      return (await listObjects(resource, options)).objects;
    } catch (error) {
      if (!(error instanceof VersionGoneError)) throw error;
      if (lists < maxLists) return await list(connection, resource, lists + 1);
      const what = `listing ${resource.kind}s failed: the API forgot the list's version before its last page`;
      throw new VipnatError('API_ANSWER_UNEXPECTED', what, { cause: error });
    }
  }
  return async (resource) => {
    for (let servers = 1; ; servers += 1) {
      const connection = await route.choose();
      try {
        return await list(connection, resource);
      } catch (error) {
        route.markFailed(connection.server);
        const isAway = error instanceof VipnatError && error.code === 'API_UNREACHABLE';
        if (!isAway || servers >= route.count) throw error;
      }
    }
  };
}
