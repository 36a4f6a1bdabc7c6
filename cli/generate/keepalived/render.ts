import { type Vrrp, type VrrpInstance } from './vrrp.ts';
import { nameInstance } from '../../../agent/keepalived/notices.ts';

/** Gratuitous ARP is repeated this often: a switch that lost the VIP's port learns it again. */
const refreshSeconds = 60;

/** How each keepalived.conf of vipnat's begins: by it a later version knows it. */
export const keepalivedMark = '# keepalived.conf by vipnat keepalived';

/** The text of keepalived.conf. Pure: equal input, equal bytes (I3). Every text in it was checked by who made the input. */
export function renderKeepalived(vrrp: Vrrp): string {
  const parts = [
    renderGlobals(vrrp),
    renderTrackFile(vrrp),
    ...vrrp.instances.map((instance) => renderInstance(instance, vrrp)),
    ...(vrrp.instances.length > 1 ? [renderSyncGroup(vrrp)] : []),
  ];
  return `${keepalivedMark}\n${parts.join('')}`;
}

/**
 * VRRPv2 has whole seconds only. IPv6 has version 3 in any case. Without a router_id keepalived 2.2.7 resolves the host's
 * name, and starts 10 s late where no DNS answers. No script is run, but the pipe belongs to the script_user, for whom keepalived
 * looks in any case and complains.
 */
function renderGlobals({ node, advertMs, notices }: Vrrp): string {
  return `global_defs {
  router_id ${node}
  vrrp_version ${advertMs % 1000 === 0 ? 2 : 3}
  vrrp_garp_master_refresh ${refreshSeconds}
  script_user root
  vrrp_notify_fifo ${notices}
}
`;
}

/**
 * Weight 0 means FAULT: a lower priority would not do, as with nopreempt no other node takes the VIP from a master
 * (seen with keepalived 2.2.7).
 */
function renderTrackFile({ trackFile }: Vrrp): string {
  return `
# vipnat's agent writes this file. 0: this node can serve the VIP. Without an agent it stays 0.
track_file serving {
  file "${trackFile}"
  weight 0
  init_file 0
}
`;
}

function renderInstance({ vip, device, vrid, unicast }: VrrpInstance, { priority, advertMs }: Vrrp): string {
  return `
vrrp_instance ${nameInstance(vip.text)} {
  state BACKUP
  nopreempt
  interface ${device}
  virtual_router_id ${vrid}
  priority ${priority}
  advert_int ${advertMs / 1000}
${renderUnicast(unicast)}  virtual_ipaddress {
    ${vip.text}/${vip.family === 'ipv4' ? 32 : 128}
  }
  track_file {
    serving
  }
}
`;
}

function renderUnicast(unicast: VrrpInstance['unicast']): string {
  if (unicast === null) return '';
  return `  check_unicast_src
  unicast_src_ip ${unicast.source}
  unicast_peer {
${unicast.peers.map((peer) => `    ${peer}\n`).join('')}  }
`;
}

/** One node holds all addresses, or none. */
function renderSyncGroup({ instances }: Vrrp): string {
  return `
vrrp_sync_group vipnat {
  group {
${instances.map(({ vip }) => `    ${nameInstance(vip.text)}\n`).join('')}  }
}
`;
}
