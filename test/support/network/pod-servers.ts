/** The command lines of small servers that say who they are, as pods and apiservers run them, and of a client. */
import { fileURLToPath } from 'node:url';

const tcpProgram = fileURLToPath(new URL('apiserver.ts', import.meta.url));
const udpProgram = fileURLToPath(new URL('udp-echo.ts', import.meta.url));

interface ServerFiles {
  readonly certificate: string;
  readonly key: string;
}

/** Answers connections with its name, by TLS or plain (apiserver.ts). */
export function tcpServerCommand(name: string, port: number, { certificate, key }: ServerFiles): string[] {
  return [process.execPath, tcpProgram, name, String(port), certificate, key];
}

/** Answers packets with its name and the client's address (udp-echo.ts). */
export function udpServerCommand(name: string, port: number): string[] {
  return [process.execPath, udpProgram, name, String(port)];
}

/** What is not there by then is lost: none is sent twice, so a machine with more to do makes it late, and not more. */
const udpLimitMs = 10_000;

/**
 * Prints, as JSON, what each of so many UDP packets is answered with within the limit: `NAME CLIENT`, `refused` or `lost`. Where packets
 * shall be lost, a short limit saves time.
 */
export function udpClientCommand(
  host: string,
  port: number,
  count: number,
  limitMs: number = udpLimitMs,
): string[] {
  return [process.execPath, udpProgram, 'ask', host, ...[port, count, limitMs].map(String)];
}
