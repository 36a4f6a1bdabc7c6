/** What `--config-id` says where these are read. */
export const configurationId = 'm1';

/** Files of keepalived's, and the addresses that are asked for. */
export interface Case {
  readonly name: string;
  /** By their paths in a folder; the first one includes the others. */
  readonly files: Readonly<Record<string, string>>;
  readonly addresses: readonly string[];
}

const ours = '10.77.0.50';
const other = '10.77.0.60';

const renderInstance = (name: string, vrid: number, address: string, more = '') => `vrrp_instance ${name} {
  interface eth0
  virtual_router_id ${vrid}
  priority ${vrid + 100}
${more}  virtual_ipaddress {
    ${address}
  }
}
`;

const instance = renderInstance('A', 51, `${ours}/32`);

const single = (name: string, text: string, addresses = [ours, other]): Case => ({
  name,
  files: { 'keepalived.conf': text },
  addresses,
});

const several = (name: string, main: string, files: Case['files']): Case => ({
  name,
  files: { 'keepalived.conf': main, ...files },
  addresses: [ours, other],
});

/** Configurations as people write them, and as they should not. */
export const configurations: readonly Case[] = [
  single('one instance', instance),
  single(
    'a virtual_server behind an instance',
    `${instance.replace(/ {2}virtual_router_id.*\n/, '').replace('}\n}', '}\n  virtual_router_id 51\n}')}
virtual_server ${other} 6443 {
  delay_loop 6
  virtual_router_id 60
  real_server 10.77.0.12 6443 {
    TCP_CHECK {
      connect_timeout 3
    }
  }
}
`,
  ),
  single(
    'an instance without an address of its own before a list of addresses',
    `vrrp_instance A {
  interface eth0
  virtual_router_id 51
  priority 151
  virtual_ipaddress {
    10.77.0.51
  }
}
static_ipaddress {
  ${ours}/32 dev eth0
}
`,
    ['10.77.0.51', ours],
  ),
  single(
    'a group, a script and a tracked file around',
    `vrrp_sync_group G {
  group {
    A
    B
  }
}
track_file serving {
  file "/nowhere/serving"
  weight 0
}
${instance}vrrp_script check {
  script "/bin/true { }"
  interval 2
}
${renderInstance('B', 60, other, '  track_script {\n    check\n  }\n')}`,
  ),
  single('two numbers: the last counts', instance.replace('priority 151', 'priority 151\n  priority 152')),
  single(
    'comments with braces in them',
    instance.replaceAll('\n', ' # }\n').replace('priority', '! {\n  # priority 7\n  priority'),
  ),
  single(
    'braces where they like',
    `vrrp_instance A
{
  interface eth0 virtual_router_id 51
  virtual_router_id 51
  priority 151
  unicast_peer { 10.77.0.12
    10.77.0.13 }
  virtual_ipaddress { ${ours}
 } }
vrrp_instance B { interface eth0
virtual_router_id 60
priority 160
virtual_ipaddress {
${other}/32 dev eth0 label "eth0:{" }
}
`,
  ),
  single('a brace too many', `${instance}}\n${renderInstance('B', 60, other)}`),
  single('a brace too few', `${instance.slice(0, -2)}${renderInstance('B', 60, other)}`),
  single('no last brace', instance.slice(0, -2)),
  single(
    'lines for some hosts only',
    renderInstance('A', 51, ours, '  @m2 priority 7\n  @m1 priority 8\n  @^m1 priority 9\n  @ priority 10\n'),
  ),
  single(
    'definitions',
    `$BASE=10.77.\${SUBNET}
$SUBNET=0
$ID=51
@m2 $ID=52
$INSTANCE= \\
vrrp_instance V\${ID} { \\
  interface eth0 \\
  virtual_router_id \${ID} \\
  priority 1\${ID} \\
  virtual_ipaddress { \\
    \${BASE}.\${HOST} \\
  } \\
}
$HOST=50
$INSTANCE
$ID=60
$HOST=60
$INSTANCE
`,
  ),
  single('an IPv6 address that is spelled at length', renderInstance('A', 51, 'FD00:0:0::0050/128'), [
    'fd00::50',
  ]),
  several('included files, in order and by pattern', 'include conf.d/*.conf\n', {
    'conf.d/b.conf': renderInstance('B', 60, other),
    'conf.d/a.conf': `include ../shared/{nothing,instance}.part # the rest\n`,
    'conf.d/.hidden.conf': renderInstance('H', 61, ours),
    'conf.d/c.other': renderInstance('C', 62, ours),
    'shared/instance.part': instance,
  }),
  several('an included part of a block', instance.replace(`    ${ours}/32\n`, 'include addresses\n'), {
    addresses: `${ours}/32\n${other}/32 # }\n`,
  }),
  several('an included file for some hosts only', '@m1 include a\n@m2 include b\n@^m2 include c?\n', {
    a: instance,
    b: renderInstance('B', 61, other),
    c1: renderInstance('C', 60, other),
  }),
  several('included files that are none', 'include folder\ninclude missing\ninclude [b-z]*.sh\ninclude a\n', {
    'folder/x': '',
    'run.sh': renderInstance('B', 60, other),
    a: instance,
  }),
];
