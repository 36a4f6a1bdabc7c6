import { askContent, readContent, type UnitContent } from '../../../devices/haproxy/content.ts';
import type { exchangeText } from '../../../lib/http/client.ts';
import type { FakeClock } from '../fakes/clock.ts';

/** A server of a slot, in the words of `show servers state`. */
interface FakeServer {
  address: string;
  port: string;
  weight: string;
  isOn: boolean;
}

/** The runtime interface of a unit in memory, as far as the driver has use for it. Its files are those that vipnat prints. */
export class FakeHaproxy {
  /** How many commands it got that change something. */
  writes = 0;
  readonly #slots: number;
  readonly #members: number;
  #mapToEntries = new Map<string, [key: string, value: string][]>();
  #slotToServers = new Map<string, FakeServer[]>();

  constructor(slots: number, members: number) {
    this.#slots = slots;
    this.#members = members;
    this.crash();
  }

  /** It starts again, and has lost all. `role` is what keepalived says then. */
  crash(role = 'active'): void {
    const maps = {
      role: { role, saving: 'no', content: 'empty' },
      limits: { addresses: '10.9.0.0-10.9.255.255', ports: '1-65535' },
      ...{ owners: {}, frontends: {} },
    };
    this.#mapToEntries = new Map(Object.entries(maps).map(([map, fields]) => [map, Object.entries(fields)]));
    const free = { address: '192.0.2.1', port: '1', weight: '1', isOn: false };
    const toServers = () => Array.from({ length: this.#members }, () => ({ ...free }));
    const slots = Array.from({ length: this.#slots }, (_, at) => `vipnat_rr_${at + 1}`);
    this.#slotToServers = new Map(slots.map((slot) => [slot, toServers()]));
  }

  /** Its files have another number of slots now, and it has reloaded. */
  resize(slots: number): void {
    this.#slotToServers = new Map([...this.#slotToServers].slice(0, slots));
  }

  read(): UnitContent {
    const answers = askContent().map((command) => this.run(command));
    return readContent('u', answers, { cluster: 'prod' });
  }

  /** `key value` of a map: `owners`, `frontends` or `role`. */
  list(map: string): readonly string[] {
    return (this.#mapToEntries.get(map) ?? []).map((entry) => entry.join(' '));
  }

  /** `ADDRESS:PORT=WEIGHT` of the servers that have a member: weight 0 is maintenance. */
  listServers(slot = 'vipnat_rr_1'): readonly string[] {
    return (this.#slotToServers.get(slot) ?? [])
      .filter(({ port }) => port !== '1')
      .map(({ address, port, weight, isOn }) => `${address}:${port}=${isOn ? weight : 0}`);
  }

  /** All of one connection. */
  exchange(text: string): string {
    const [, ...commands] = text.trimEnd().split('\n');
    return ['', ...commands.slice(0, -1).map((command) => this.run(command)), ''].join('\n> ');
  }

  run(command: string): string {
    const [verb = '', what = '', name = '', ...words] = command.split(' ');
    if (verb === 'show' && what === 'servers') return this.#showServers(words[0]);
    if (verb === 'show') return this.#showMap(name);
    this.writes += 1;
    if (what === 'map') return this.#changeMap(verb, name, words);
    return this.#changeServer(name, words);
  }

  #showMap(file: string): string {
    const entries = this.#mapToEntries.get(toName(file)) ?? [];
    return entries.map(([key, value], at) => `0x${at + 1} ${key} ${value}`).join('\n');
  }

  #showServers(slot?: string): string {
    const head =
      '# be_name srv_name srv_addr srv_admin_state srv_uweight srv_time_since_last_change srv_port';
    const all = [...this.#slotToServers].filter(([name]) => slot === undefined || name === slot);
    const lines = all.flatMap(([name, servers]) =>
      servers.map(({ address, port, weight, isOn }, at) =>
        [name, `s${at + 1}`, address, isOn ? 0 : 1, weight, 5, port].join(' '),
      ),
    );
    return ['1', head, ...lines].join('\n');
  }

  #changeMap(verb: string, file: string, [key = '', value = '']: readonly string[]): string {
    const entries = this.#mapToEntries.get(toName(file)) ?? [];
    const known = entries.filter(([other], at) => other === key || key === `#0x${at + 1}`);
    if (verb === 'add') entries.push([key, value]);
    else if (known.length === 0) return 'entry not found.';
    for (const entry of known)
      if (verb === 'set') entry[1] = value;
      else if (verb === 'del') entries.splice(entries.indexOf(entry), 1);
    return '';
  }

  #changeServer(place: string, words: readonly string[]): string {
    const [slot = '', name = ''] = place.split('/');
    const server = this.#slotToServers.get(slot)?.[Number(name.slice(1)) - 1];
    if (server === undefined) return 'No such server.';
    const [what, value = '', , port = ''] = words;
    if (what === 'addr') Object.assign(server, { address: value, port });
    if (what === 'weight') server.weight = value;
    if (what === 'state') server.isOn = value === 'ready';
    return '';
  }
}

const toName = (file: string) => /^vipnat-(.*)\.map$/.exec(file)?.[1] ?? '';

/** Units by their hosts. One that is `null` takes a connection and says nothing, until the limit of the call; one that is not there refuses. */
export function toExchange(
  hostToUnit: ReadonlyMap<string, FakeHaproxy | null>,
  clock: FakeClock,
): typeof exchangeText {
  return ({ host, text, limitMs }) => {
    const unit = hostToUnit.get(host);
    if (unit != null) return Promise.resolve(unit.exchange(text));
    if (unit === undefined) return Promise.reject(new Error('connection refused'));
    clock.stall(limitMs);
    return Promise.reject(new Error(`no answer within ${limitMs / 1000} s`));
  };
}
