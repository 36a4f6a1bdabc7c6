import { type IncomingMessage, type ServerResponse } from 'node:http';

export type Manner =
  | 'well'
  /** 500, as without etcd. */
  | 'failing'
  /** 429, and to be asked again after 20 s. */
  | 'busy'
  /** Accepts, and never answers. */
  | 'hanging'
  /** 200 with a page for people. */
  | 'page'
  /** 200 with JSON of another kind. */
  | 'another kind'
  /** 403 with a Status. */
  | 'forbidding'
  /** 401 with a Status. */
  | 'unauthorized';

export function refuse(response: ServerResponse, manner: Exclude<Manner, 'well'>): void {
  const mannerToAnswer: Readonly<Record<typeof manner, () => void>> = {
    failing: () => {
      respond(response, 500, toStatus(500, 'etcdserver: request timed out'));
    },
    busy: () => {
      respond(response.setHeader('retry-after', '20'), 429, toStatus(429, 'too many requests'));
    },
    hanging: () => undefined,
    page: () => {
      response.end('<html>Welcome\n</html>\n');
    },
    'another kind': () => {
      respond(response, 200, { kind: 'PodList', metadata: { resourceVersion: '1' }, items: [] });
    },
    forbidding: () => {
      respond(response, 403, toStatus(403, 'endpointslices is forbidden: User "x" cannot list resource'));
    },
    unauthorized: () => {
      respond(response, 401, toStatus(401, 'Unauthorized'));
    },
  };
  mannerToAnswer[manner]();
}

export function toStatus(code: number, message: string): object {
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, code };
}

/** An answer: its status, and an object or the message of a Status. */
export interface Reply {
  readonly code: number;
  readonly body: object | string;
}

/** What a request brings; null for nothing. */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  let text = '';
  for await (const part of request) text += String(part);
  return text === '' ? null : (JSON.parse(text) as unknown);
}

export function respond(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

export function send(response: ServerResponse, event: object): void {
  response.write(`${JSON.stringify(event)}\n`);
}
