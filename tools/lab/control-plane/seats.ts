import type { Machine } from '../machines/machine.ts';
import { Seat } from '../../../test/support/network/seat.ts';

/** How a command gets into a host's pod. */
export const inPod: readonly string[] = ['ip', 'netns', 'exec', 'pod'];

/** The clients at hosts and in their pods. A host's pod is called `pod-` and the host's name. */
export class Seats {
  readonly #locate: (host: string) => Machine;
  readonly #seats = new Map<string, Seat>();

  constructor(locate: (host: string) => Machine) {
    this.#locate = locate;
  }

  /** The client at a host or pod, started when first asked for; one for each role, which do not wait for each other. */
  get(place: string, role = 'client'): Seat {
    const { machine, prefix } = this.#find(place);
    const key = `${place} ${role}`;
    const seat = this.#seats.get(key) ?? new Seat(key, machine.spawn([...prefix, ...Seat.command]));
    this.#seats.set(key, seat);
    return seat;
  }

  /** Ends the clients at a host and in its pod, or all of them; they are started anew when they are asked for again. */
  close(host?: string): void {
    for (const [key, seat] of this.#seats) {
      if (host !== undefined && !key.startsWith(`${host} `) && !key.startsWith(`pod-${host} `)) continue;
      seat.close();
      this.#seats.delete(key);
    }
  }

  #find(place: string): { machine: Machine; prefix: readonly string[] } {
    if (!place.startsWith('pod-')) return { machine: this.#locate(place), prefix: [] };
    return { machine: this.#locate(place.slice('pod-'.length)), prefix: inPod };
  }
}
