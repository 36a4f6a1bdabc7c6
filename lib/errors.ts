import { exitStatuses, toPrintable } from './text.ts';

/** What is said of a kind of failure. */
interface ErrorDescription {
  /** The exit status of a command that ends with it; that of failures unless given. */
  readonly exit?: number;
  /** Whether the same can succeed later without a change of the configuration; true unless given. */
  readonly retry?: boolean;
  /** What happened, and the effect: sentences in Markdown, without links. */
  readonly meaning: string;
  /** What to do, likewise. */
  readonly remedy: string;
}

const permanent = { retry: false } as const;
const misuse = { exit: exitStatuses.misused, retry: false } as const;

/**
 * Everything that can go wrong, in one catalogue. The code is the contract: scripts, tests and logs branch
 * on it, never on the text. `vipnat help errors` and docs/reference.md print them.
 */
const errorCatalogue = {
  CONFIG_INVALID: {
    ...misuse,
    meaning: 'A flag, a variable, the file or their combination is wrong.',
    remedy: 'Each line names the value, its source and an example. `vipnat help options` lists all.',
  },
  NODE_TOO_OLD: {
    ...permanent,
    meaning: 'The Node.js that runs vipnat is older than 22.19.',
    remedy: 'Install a newer Node.js. In a checkout, `scripts/vipnat` brings its own.',
  },
  NOT_LINUX: {
    ...permanent,
    meaning: 'The command is about the host that it runs on, and this host does not run Linux.',
    remedy:
      'Run the command on a node. `services`, `seats`, `device`, `manifest` and `status --all-nodes` run on any computer.',
  },
  TOOL_MISSING: {
    meaning: 'iptables, nft or another tool is not on this host.',
    remedy: 'Install the package that the line names, or choose another backend with `--iptables`.',
  },
  TOOL_NOT_PERMITTED: {
    meaning: 'The kernel denies vipnat access to the firewall.',
    remedy: "Run vipnat as root. A container needs the host's network, `NET_ADMIN` and `NET_RAW`.",
  },
  TOOL_FAILED: {
    meaning:
      'A tool ended with an error. Either the rules changed meanwhile, or the kernel lacks a feature. vipnat wrote nothing, or at most the tables before the failing one.',
    remedy: "Run the command with `--log-level debug`: it prints the tool's input and output.",
  },
  NF_TABLES_MISSING: {
    meaning:
      "This kernel has no nf_tables, so the lists of iptables-nft and nft are empty. vipnat continues if kube-proxy's and its own rules are in iptables-legacy.",
    remedy: 'If the host uses iptables-legacy, nothing. Otherwise load the module `nf_tables`.',
  },
  TOOL_TIMED_OUT: {
    meaning: 'A tool did not end in time. Most likely it waited for the xtables lock.',
    remedy: 'Find the process that has `/run/xtables.lock`: `fuser -v /run/xtables.lock`.',
  },
  DESCRIPTORS_EXHAUSTED: {
    meaning: 'This process, or the host, has no file descriptor left. The rules stay.',
    remedy: 'Raise the limit that the line names. `ls /proc/PID/fd` lists the open files of a process.',
  },
  TOOL_OUTPUT_UNEXPECTED: {
    meaning: 'vipnat cannot read the output of a tool. If vipnat needs that output, it writes nothing.',
    remedy: 'Report it, with the version of the tool and the output of `--log-level debug`.',
  },
  TABLE_INCOMPATIBLE: {
    meaning: 'A table holds rules that this iptables cannot print, because nft made them.',
    remedy:
      'Find the rules with `nft list ruleset`, and move them into a separate table. Or set `--iptables none`, and add the rule for FORWARD that the line names, if it names one.',
  },
  NETLINK_FAILED: {
    meaning:
      "The kernel did not answer a question about addresses, routes, connections or the rules' generation. Or it refused to change a route, to end a socket or to forget a connection.",
    remedy:
      "Check that the container has the host's network. `EOPNOTSUPP` means a kernel without `CONFIG_INET_DIAG_DESTROY`: local clients' connections then hang when a VIP leaves. Otherwise report it.",
  },
  SYSCTL_NOT_WRITTEN: {
    meaning: 'IP forwarding is off. /proc/sys is read-only in the container. The VIP is not balanced.',
    remedy: 'Run the `sysctl -w` that the line names on the host, or make the container privileged.',
  },
  RULES_NOT_CONVERGING: {
    meaning: 'After several writes the rules still differ: another program changes them back.',
    remedy: 'Stop the other program. `vipnat check` lists the differences.',
  },
  DRAIN_REFUSED: {
    meaning: 'vipnat did not drain this host, because it must not: the line says why.',
    remedy: 'Do what the line says. Only if the API may go, use `--force`.',
  },
  STATE_UNREADABLE: {
    meaning:
      'vipnat ignores the state file (`endpoints.json`). The file is damaged, edited, of a newer version, a link, or writable by users other than root. Or the file of a drain (`drained`) cannot be read: then this host is not drained.',
    remedy:
      'Nothing: vipnat replaces `endpoints.json` when it knows the apiservers. If the line names `drained`, remove this file. If the line names the folder, run `chown root` and `chmod go-w` on the folder. If no other source names apiservers, give `--endpoints`.',
  },
  STATE_NOT_WRITTEN: {
    meaning:
      "vipnat could not write the state file. The folder is read-only or full, another user owns it (`EACCES`, `EPERM`), or a folder has the file's name (`EISDIR`). Everything else works.",
    remedy: 'Free space, run `chown root` on the folder, or name a writable folder with `--state-dir`.',
  },
  HEARTBEAT_NOT_WRITTEN: {
    meaning: 'vipnat cannot write `/dev/shm/vipnat-alive`, so the kubelet keeps restarting its pod.',
    remedy: 'Give the container a `/dev/shm` that it can write. Container runtimes do so by default.',
  },
  TRACK_FILE_NOT_WRITTEN: {
    meaning:
      'The agent cannot report to keepalived whether this node can serve. `/run/vipnat/keepalived` is read-only or full, another user owns it, or it is a link. Everything else works, and the VIP stays where it is.',
    remedy: 'Free space, mount the folder into the container, or remove the file that the line names.',
  },
  OUTPUT_NOT_WRITTEN: {
    meaning: 'vipnat could not write a file, and left the former one unchanged: the line says why.',
    remedy: 'Free space, or name another file. vipnat replaces no file of other software.',
  },
  API_CREDENTIALS_INVALID: {
    meaning:
      "vipnat cannot use the kubeconfig or the pod's service account. It is not YAML, names no server or misses a file. Or its credential plugin failed, which only commands of a person start. The agent keeps the apiservers that it knows.",
    remedy:
      'Do what the line says. Give the agent a file with a certificate or token. It reads the file at each attempt.',
  },
  API_UNREACHABLE: {
    meaning: 'No apiserver answers the requests of vipnat. The agent keeps the apiservers that it knows.',
    remedy: 'Check the apiservers: `vipnat status` shows their state.',
  },
  API_UNTRUSTED: {
    meaning: "The server's certificate is not from the credentials' CA, or not for the server's name.",
    remedy: "Use this cluster's kubeconfig, or set its `tls-server-name` to a name in the certificate.",
  },
  API_FORBIDDEN: {
    meaning: 'The API does not accept these credentials (401), or they lack a right (403).',
    remedy: '401: renew the credentials. 403: bind the role in docs/reference.md.',
  },
  API_ANSWER_UNEXPECTED: {
    meaning: 'The API answered with an error, or with something other than an object.',
    remedy: 'For 500 or more, check that apiserver and etcd. Otherwise find what listens there.',
  },
  NODE_NOT_FOUND: {
    meaning: 'No node of this name has a balancer, may hold a seat, or is drained. vipnat changed nothing.',
    remedy: 'Give the name as `kubectl get nodes` has it. `vipnat seats` lists the seats and their nodes.',
  },
  SEATS_NOT_MOVED: {
    meaning: 'A node still holds seats that it has to give up. A drain stays, and the seats move later.',
    remedy: 'Check that a controller and the balancers run: `vipnat seats` shows which nodes say nothing.',
  },
  SERVICE_NOT_FOUND: {
    meaning: 'There is no Service of this name, or it has a type or class that vipnat does not serve.',
    remedy: 'Give NAMESPACE/NAME. `vipnat services` lists the Services of vipnat.',
  },
  DEVICE_SETTINGS_INVALID: {
    ...misuse,
    meaning: 'The description of a device, its credentials, or a wanted balancer is wrong.',
    remedy: 'Correct the value that the line names. docs/drivers.md has the fields.',
  },
  DRIVER_NOT_LOADED: {
    ...misuse,
    meaning: 'vipnat has no driver with the name, or cannot load the module of `--driver`.',
    remedy: 'Name a driver of vipnat, or a module that exports `createDriver`: see docs/drivers.md.',
  },
  DEVICE_FAILED: {
    meaning: 'A device did not answer as expected: the line says which unit, and why.',
    remedy: 'Do what the line says. `vipnat device state` prints what each unit reports.',
  },
  DEVICE_IN_USE: {
    meaning: 'The device has balancers of the conformance suite, of another run or an earlier one.',
    remedy: 'If no other run uses the device, add `--remove-leftovers`.',
  },
  LISTEN_FAILED: {
    meaning:
      "A program of vipnat cannot serve HTTP at its address. Another program has the port, or this host does not have the address. Everything else works, and vipnat tries again. Until then, a pod's probes fail.",
    remedy: 'Find the program that has the port (`ss -ltnp`), or give `--listen` another address.',
  },
  AGENT_ALREADY_RUNNING: {
    ...permanent,
    meaning:
      'An agent already runs in this network namespace. `run --once` ends, and `cleanup` leaves its rules. `run` waits: it logs this code once, writes nothing, and takes over when the other agent ends.',
    remedy: 'Stop the agent that the line names. To change its install method, see docs/operate.md.',
  },
  BALANCER_ALREADY_RUNNING: {
    ...permanent,
    meaning:
      'A balancer already runs in this network namespace. A second one waits: it logs this code once, writes nothing, and takes over when the first one ends. `cleanup` leaves its tables.',
    remedy: 'During an update, nothing. Before `cleanup`, stop the balancer that the line names.',
  },
  INTERNAL_ERROR: {
    ...permanent,
    meaning: 'vipnat has a bug.',
    remedy: 'Report it, with the output of the same command with `--log-level debug`.',
  },
} as const satisfies Record<string, ErrorDescription>;

/** A stable name for one kind of failure. */
export type ErrorCode = keyof typeof errorCatalogue;

/** All codes, in the order of the catalogue. */
export const errorCodes = Object.keys(errorCatalogue) as readonly ErrorCode[];

/** What is said of a kind of failure, with what it does not say itself. */
export function describeError(code: ErrorCode): Required<ErrorDescription> {
  return { exit: exitStatuses.failed, retry: true, ...errorCatalogue[code] };
}

/** Why a call of the system failed, for a line: `ENOENT`, or the message of what has no code. */
export function describeCause(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}

/** Null for a file that is not there; throws any other error. For `catch`. */
export function ignoreMissing(error: unknown): null {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
  throw error;
}

/** The code of whatever was thrown: what is no VipnatError is a bug, INTERNAL_ERROR. */
export function findErrorCode(error: unknown): ErrorCode {
  return error instanceof VipnatError ? error.code : 'INTERNAL_ERROR';
}

/**
 * The one error class of vipnat. The message is one line: what was attempted, what happened, what comes next; only
 * that of CONFIG_INVALID can have several, one for each problem.
 * `details` is for a tool's own words or a failing script: shown only where the whole story is asked for.
 */
export class VipnatError extends Error {
  /** Which failure this is. */
  readonly code: ErrorCode;
  /** What a failing tool printed or was given; absent when the message says it all. */
  readonly details: string | undefined;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; details?: string } = {}) {
    // Much of it quotes what tools, files and other hosts say, and all of it is for a terminal or a log.
    super(toPrintable(message), 'cause' in options ? { cause: options.cause } : {});
    this.name = 'VipnatError';
    this.code = code;
    this.details = options.details;
  }

  /** The exit status of a command that ends with this error. */
  get exitCode(): number {
    return describeError(this.code).exit;
  }

  /** Whether the same attempt can succeed later without anybody changing the configuration. */
  get retry(): boolean {
    return describeError(this.code).retry;
  }
}

/** What a promise answers, or something else where it rejects with a VipnatError; anything else is a bug, and rejects. */
export async function orElse<T, U>(asking: Promise<T>, otherwise: U): Promise<T | U> {
  try {
    return await asking;
  } catch (error) {
    if (error instanceof VipnatError) return otherwise;
    throw error;
  }
}

/** TOOL_OUTPUT_UNEXPECTED, with the beginning of the line that nobody expected: foreign text that goes into a message stays readable. */
export function outputUnexpected(problem: string, line: string): VipnatError {
  return new VipnatError('TOOL_OUTPUT_UNEXPECTED', `${problem}: ${JSON.stringify(line.slice(0, 80))}`);
}

/** Whatever was thrown, as a VipnatError: what is none gets `code`, and the message that `attempt` failed. */
export function toVipnatError(error: unknown, code: ErrorCode, attempt: string): VipnatError {
  if (error instanceof VipnatError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new VipnatError(code, `${attempt} failed: ${reason}`, { cause: error });
}
