import { existsSync } from 'node:fs';

const folder = '/proc/sys/net/netfilter';

/**
 * Transport protocols that the kernel of this network namespace cannot translate: SCTP where it was built without
 * CONFIG_NF_CT_PROTO_SCTP, and none while its connection table is not loaded, which nobody can tell then.
 */
export function listUntranslatedProtocols(): readonly string[] {
  const hasTable = existsSync(`${folder}/nf_conntrack_max`);
  return hasTable && !existsSync(`${folder}/nf_conntrack_sctp_timeout_established`) ? ['SCTP'] : [];
}
