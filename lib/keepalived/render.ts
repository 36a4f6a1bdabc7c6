/** One vrrp_instance. Every text in it is one word to keepalived's parser. */
export interface VrrpInstance {
  readonly name: string;
  /** The interface that carries the adverts. */
  readonly device: string;
  /** 1 to 255. */
  readonly vrid: number;
  /** 1 to 254. */
  readonly priority: number;
  /** In milliseconds, a multiple of 10. */
  readonly advertMs: number;
  /** Whether it takes the addresses from a node of a lower priority that has them. */
  readonly preempts: boolean;
  /** Who gets the adverts, of the addresses' family; null for multicast. */
  readonly unicast: { readonly source: string; readonly peers: readonly string[] } | null;
  /** What adverts name: `10.0.0.50/32`. At least one, all of one family. */
  readonly addresses: readonly string[];
  /**
   * What is held besides, of any family: `10.0.0.51/32`, `fd00::51/128 dev eth1`. Adverts do not name it: nodes that differ
   * in it for a moment agree on the holder all the same.
   */
  readonly excluded: readonly string[];
  /** Interfaces besides `device` without which this node cannot hold the addresses. */
  readonly tracked: readonly string[];
}

/** All that a keepalived of vipnat's is told. */
export interface KeepalivedConfiguration {
  /** The first line: by it a later version knows the file. */
  readonly mark: string;
  readonly routerId: string;
  readonly version: 2 | 3;
  /** Lines of global_defs that only this configuration has. */
  readonly globals: readonly string[];
  /** The named pipe by which keepalived says what state its instances are in: a path without blanks and quotes. */
  readonly notices: string;
  /** The file by which vipnat says whether this node can serve, such a path too; and what a reader is told of it. */
  readonly trackFile: { readonly path: string; readonly comment: string };
  readonly instances: readonly VrrpInstance[];
  /** Of the group all of whose instances one node holds; null for none. */
  readonly group: string | null;
}

/** Gratuitous ARP is repeated this often: a switch that lost an address's port learns it again. */
const refreshSeconds = 60;

/** The text of keepalived.conf. Pure: equal input, equal bytes (I3). Every text in it was checked by who made the input. */
export function renderConfiguration(configuration: KeepalivedConfiguration): string {
  const { mark, instances, group } = configuration;
  const parts = [
    renderGlobals(configuration),
    renderTrackFile(configuration),
    ...instances.map(renderInstance),
    ...(group === null ? [] : [renderSyncGroup(group, instances)]),
  ];
  return `${mark}\n${parts.join('')}`;
}

/**
 * Without a router_id keepalived 2.2.7 resolves the host's name, and starts 10 s late where no DNS answers. No script is run,
 * but the pipe belongs to the script_user, for whom keepalived looks in any case and complains.
 */
function renderGlobals({ routerId, version, globals, notices }: KeepalivedConfiguration): string {
  return `global_defs {
  router_id ${routerId}
  vrrp_version ${version}
  vrrp_garp_master_refresh ${refreshSeconds}
${globals.map((line) => `  ${line}\n`).join('')}  script_user root
  vrrp_notify_fifo ${notices}
}
`;
}

/**
 * Weight 0 means FAULT: a lower priority would not do, as with nopreempt no other node takes an address from a master
 * (seen with keepalived 2.2.7).
 */
function renderTrackFile({ trackFile: { path, comment } }: KeepalivedConfiguration): string {
  return `
# ${comment}
track_file serving {
  file "${path}"
  weight 0
  init_file 0
}
`;
}

function renderInstance(instance: VrrpInstance): string {
  const { name, device, vrid, priority, advertMs, preempts, unicast } = instance;
  const { addresses, excluded, tracked } = instance;
  return `
vrrp_instance ${name} {
  state BACKUP
${preempts ? '' : '  nopreempt\n'}  interface ${device}
  virtual_router_id ${vrid}
  priority ${priority}
  advert_int ${advertMs / 1000}
${renderUnicast(unicast)}${renderList('virtual_ipaddress', addresses)}${renderList('virtual_ipaddress_excluded', excluded)}${renderList('track_interface', tracked)}${renderList('track_file', ['serving'])}}
`;
}

function renderUnicast(unicast: VrrpInstance['unicast']): string {
  if (unicast === null) return '';
  return `  check_unicast_src
  unicast_src_ip ${unicast.source}
${renderList('unicast_peer', unicast.peers)}`;
}

/** An empty list is left out. */
function renderList(keyword: string, items: readonly string[]): string {
  if (items.length === 0) return '';
  return `  ${keyword} {\n${items.map((item) => `    ${item}\n`).join('')}  }\n`;
}

function renderSyncGroup(group: string, instances: readonly VrrpInstance[]): string {
  return `
vrrp_sync_group ${group} {
  group {
${instances.map(({ name }) => `    ${name}\n`).join('')}  }
}
`;
}
