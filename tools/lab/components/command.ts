/** A component's command line, and the variables it needs on top. */
export interface Command {
  readonly command: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

/** An address as it stands in a URL. */
export function toUrlHost(address: string): string {
  return address.includes(':') ? `[${address}]` : address;
}
