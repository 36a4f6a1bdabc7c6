import { isIP } from 'node:net';
import { checkServerIdentity, connect, type TLSSocket } from 'node:tls';
import { type Clock, scheduleLimit } from '../control/clock.ts';

/** A conversation of one question and one answer, over a connection of its own. */
export interface TlsExchange {
  /** A name or an address, without brackets. Its certificate has to be for it. */
  readonly host: string;
  readonly port: number;
  /** What signs its certificate, as PEM; null for what the system trusts. */
  readonly ca: string | null;
  readonly text: string;
  /** From now until there is a connection: the other side's kernel makes it, however busy its programs are. */
  readonly connectLimitMs: number;
  /** From now until the answer has ended. */
  readonly limitMs: number;
  /** A longer answer is not read to its end. */
  readonly maxBytes: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * Sends a text, and answers with all that comes until the other side ends the connection. The certificate is always verified. After an
 * error the other side may have any beginning of the text.
 * @throws an Error, with Node's code where it has one; what the signal was ended with.
 */
export async function exchangeText(exchange: TlsExchange): Promise<string> {
  const { signal, clock, limitMs, connectLimitMs } = exchange;
  signal.throwIfAborted();
  const socket = open(exchange);
  const onAbort = () => socket.destroy(new Error('aborted'));
  signal.addEventListener('abort', onAbort);
  const cancelConnect = scheduleLimit(clock, connectLimitMs, () => {
    if (socket.connecting) socket.destroy(new Error(`no connection within ${connectLimitMs / 1000} s`));
  });
  const cancel = scheduleLimit(clock, limitMs, () => {
    socket.destroy(new Error(`no answer within ${limitMs / 1000} s`));
  });
  try {
    return await converse(socket, exchange);
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    cancel();
    cancelConnect();
    signal.removeEventListener('abort', onAbort);
    socket.destroy();
  }
}

function open({ host, port, ca }: TlsExchange): TLSSocket {
  return connect({
    ...{ host, port },
    ...(ca === null ? {} : { ca }),
    // An address is no server name in TLS (RFC 6066); the certificate is held against it all the same.
    servername: isIP(host) === 0 ? host : '',
    checkServerIdentity: (_host, certificate) => checkServerIdentity(host, certificate),
  });
}

async function converse(socket: TLSSocket, { text, maxBytes }: TlsExchange): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  await new Promise<void>((resolve, reject) => {
    socket
      .on('error', reject)
      .on('secureConnect', () => socket.write(text))
      .on('data', (part: Buffer) => {
        parts.push(part);
        bytes += part.length;
        if (bytes > maxBytes) reject(new Error(`its answer is longer than ${maxBytes} bytes`));
      })
      .on('end', resolve)
      .on('close', resolve);
  });
  return Buffer.concat(parts).toString();
}
