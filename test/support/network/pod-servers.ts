/** The command lines of small servers that say who they are, as pods and apiservers run them, and of a client. */
import { fileURLToPath } from 'node:url';

const tcpProgram = fileURLToPath(new URL('apiserver.ts', import.meta.url));
const udpProgram = fileURLToPath(new URL('udp-echo.ts', import.meta.url));

/** Files of a server's certificate and key. */
export interface ServerFiles {
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

/** Prints, as JSON, what each of so many UDP packets is answered with: `NAME CLIENT`, `refused` or `lost`. */
export function udpClientCommand(host: string, port: number, count: number): string[] {
  return [process.execPath, udpProgram, 'ask', host, String(port), String(count)];
}
