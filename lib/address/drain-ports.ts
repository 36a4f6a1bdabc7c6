/**
 * The source ports of drain checks: a host that is drained refuses connections to its apiserver from these ports, and
 * accepts all others (`vipnat drain`).
 *
 * Only root connects from a port below 1024. Linux gives such a port to no other program, and its address translation moves
 * no client's port there (nf_nat_l4proto_unique_tuple). So no client is refused by chance. IANA has assigned none of these ports.
 */
export const drainPorts = { first: 914, last: 952 } as const;

/** How many there are. */
export const drainPortCount = drainPorts.last - drainPorts.first + 1;

/** What a drained host refuses: a host that translates its own connections turns a port from 512 to 1023 into one of these. */
export const refusedPorts = { first: 600, last: 1023 } as const;
