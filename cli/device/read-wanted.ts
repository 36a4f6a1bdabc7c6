import * as z from 'zod/mini';
import { type Address, parseAddress } from '../../lib/address/address.ts';
import { parseEndpoint } from '../../lib/address/endpoint.ts';
import { type Balancer } from '../../lib/devices/driver.ts';
import { checkShape, invalid, readYaml } from './read-yaml.ts';

const label = (example: string) =>
  z.string({ error: `is missing, or not a text. Example: ${example}` }).check(
    z.regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, {
      error: `is not a name as Kubernetes has them. Example: ${example}`,
    }),
  );

const address = z.pipe(
  z.string({ error: 'is missing, or not a text. Example: 10.0.9.10' }),
  z.transform((text: string, context): Address => {
    const found = parseAddress(text);
    if (found !== null) return found;
    context.issues.push({ code: 'custom', input: text, message: 'is not an IP address. Example: 10.0.9.10' });
    return z.NEVER;
  }),
);

const port = z
  .number({ error: 'is missing, or not a number. Example: 80' })
  .check(z.refine((value) => isWhole(value, 1, 65_535), { error: 'is not a port. Example: 80' }));

const memberMap = z.object({
  address,
  port,
  weight: z._default(
    z
      .number({ error: 'is not a number. Example: 1' })
      .check(z.refine((value) => isWhole(value, 0, 256), { error: 'is not from 0 to 256. Example: 1' })),
    1,
  ),
});

const memberText = z.pipe(
  z.string(),
  z.transform((text: string, context) => {
    const endpoint = parseEndpoint(text);
    if (endpoint !== null)
      return { address: { family: endpoint.family, text: endpoint.address }, port: endpoint.port, weight: 1 };
    context.issues.push({
      code: 'custom',
      input: text,
      message: 'is not an address with its port. Example: 10.1.2.3:8080',
    });
    return z.NEVER;
  }),
);

const schema = z.object({
  namespace: label('default'),
  name: label('web'),
  uid: z
    .string({ error: "is missing, or not a text. It is the Service's metadata.uid" })
    .check(z.regex(/^[a-z0-9-]{1,36}$/, { error: 'is not the uid of a Service' })),
  addresses: z
    .array(address, { error: 'is missing, or not a list. Example: [10.0.9.10]' })
    .check(z.minLength(1, { error: 'is empty. Example: [10.0.9.10]' })),
  method: z._default(z.enum(['rr', 'lc', 'hash'], { error: 'is none of rr, lc, hash' }), 'rr'),
  affinitySeconds: z._default(
    z.nullable(
      z
        .number({ error: 'is not a number. Example: 600' })
        .check(z.refine((value) => isWhole(value, 1, 86_400), { error: 'is not from 1 to 86400' })),
    ),
    null,
  ),
  listeners: z
    .array(
      z.object({
        protocol: z._default(z.enum(['tcp', 'udp'], { error: 'is neither tcp nor udp' }), 'tcp'),
        port,
        members: z._default(
          z.array(z.union([memberMap, memberText], { error: 'is not a member. Example: 10.1.2.3:8080' }), {
            error: 'is not a list. Example: [10.1.2.3:8080]',
          }),
          [],
        ),
      }),
      { error: 'is missing, or not a list' },
    )
    .check(z.minLength(1, { error: 'is empty' })),
});

/**
 * Reads the wanted balancer of a cluster, in the form in which `vipnat device list --json` prints it.
 * @throws VipnatError DEVICE_SETTINGS_INVALID
 */
export async function readWanted(path: string, cluster: string): Promise<Balancer> {
  const [document, ...more] = await readYaml(path, '--balancer');
  if (more.length > 0) throw invalid(`${path} has more than one balancer: it may have one`);
  const { namespace, name, uid, affinitySeconds, ...rest } = checkShape(schema, document ?? null, path);
  const places = rest.listeners.map((listener) => `${listener.protocol}/${listener.port}`);
  const twice = places.find((place, at) => places.indexOf(place) !== at);
  if (twice !== undefined) throw invalid(`${path}: listeners has ${twice} twice`);
  return { id: { cluster, namespace, name, uid }, affinityS: affinitySeconds, ...rest };
}

function isWhole(value: number, least: number, most: number): boolean {
  return Number.isInteger(value) && value >= least && value <= most;
}
