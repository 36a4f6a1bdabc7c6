/**
 * An interface's name as configuration files take it. Linux allows any 15 bytes but blanks and slashes; whatever
 * means something to keepalived's parser is left out.
 */
export const safeInterface = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$/;

const safeHostname = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,254}$/;

/** A host's name as the router_id of its keepalived, for that one's own log; `vipnat` for one that its parser could misread. Pure. */
export function toRouterId(hostname: string): string {
  return safeHostname.test(hostname) ? hostname : 'vipnat';
}

/** Whether keepalived's parser takes a path as one word: it knows blanks, quotes, `#` and `!`. */
export function isSafePath(path: string): boolean {
  return /^[\w./@+-]+$/.test(path);
}
