import { type Random } from '../../../support/random/random.ts';

/** What a shell, a terminal, a YAML reader or a tool's own grammar would take for more than text. */
const hostileTexts = [
  ...['$(touch /tmp/pwned)', '`id`', "'; reboot; '", '"; flush ruleset; "', '; flush ruleset', '| sh'],
  ...['\u001b[2J\u001b[H', '\u001b]0;title\u0007', '\u009b31m', '\u202etxt.exe', '\u2028', '\u0000', '\r'],
  ...['\r\n', '\n-A PREROUTING -j ACCEPT', '\n# HELP vipnat_rule_conflict no', '} # {'],
  ...['!include /etc/shadow', '&a [*a]', '*a', '<<: *a', '__proto__', 'constructor', 'toString'],
  ...['../../etc/passwd', '%s%n', '\ud800', '\ufeff', '𝕳', '\\', '"', "'"],
];

/** Numbers where something begins or ends. */
export const edgeNumbers = [
  ...'0 1 -1 00 255 256 443 6443 65535 65536 4294967295 4294967296 9007199254740993'.split(' '),
  ...'1e9 1e400 0x10 0b1 NaN Infinity ٣'.split(' '),
];

/** Addresses in all forms, right and wrong. */
export const addressTexts = [
  ...'10.77.0.11 10.77.0.12 10.0.0.50 10.96.0.1 0.0.0.0 127.0.0.1 169.254.1.1 224.0.0.18'.split(' '),
  ...'255.255.255.255 010.0.0.1 10.0.1 10.0.0.256 0x0a.0.0.1'.split(' '),
  ...'fd00::50 FD00:0:0:0:0:0:0:50 fd00:77::11 fe80::1%eth0 ::ffff:10.0.0.1 :: ::1 ff02::12'.split(' '),
  ...['fd00::1::2', '[fd00::50]'],
];

/** Any of these, or a few characters. */
export function makeHostileText(random: Random): string {
  if (random.chance(70)) return random.pick(hostileTexts);
  if (random.chance(50)) return random.pick([...edgeNumbers, ...addressTexts]);
  return String.fromCharCode(...random.list(12, () => random.below(random.chance(80) ? 0x100 : 0x1_0000)));
}
