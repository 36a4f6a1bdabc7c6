import * as z from 'zod/mini';
import { findNearest } from '../../config/nearest.ts';
import { quoteText } from '../../config/setting.ts';
import { isClusterName } from '../../lib/devices/mark.ts';
import { apiGroup, apiVersion } from '../../lib/services/names.ts';
import { parseRange, type AddressRange } from '../../lib/services/ranges.ts';
import { checkShape, invalid, readYaml } from './read-yaml.ts';

/** A LoadBalancerDevice, as far as commands need it. */
export interface DeviceDescription {
  readonly name: string;
  /** Null where it names none. */
  readonly driver: string | null;
  readonly cluster: string;
  readonly units: readonly string[];
  /** Which addresses Services may have there; empty for any. */
  readonly addresses: readonly AddressRange[];
  readonly options: Readonly<Record<string, string>>;
}

const kind = 'LoadBalancerDevice';

const text = (example: string) =>
  z
    .string({ error: `is missing, or not a text. Example: ${example}` })
    .check(z.minLength(1, { error: `is empty. Example: ${example}` }));

const addressRange = z.pipe(
  text('10.0.9.10-10.0.9.99'),
  z.transform((word: string, context) => {
    const range = parseRange(word);
    if (range !== null) return range;
    context.issues.push({
      code: 'custom',
      input: word,
      message: `is not a range of addresses: ${quoteText(word)}. Example: 10.0.9.10-10.0.9.99`,
    });
    return z.NEVER;
  }),
);

const schema = z.object({
  metadata: z.object({ name: text('edge') }, { error: 'is missing. It has the name of the device' }),
  spec: z.object(
    {
      driver: z.nullish(text('haproxy')),
      cluster: text('prod').check(
        z.refine(isClusterName, {
          error: 'is not a name of at most 40 lower case letters, digits and -. Example: prod',
        }),
      ),
      units: z
        .array(text('https://10.0.0.1'), { error: 'is missing, or not a list. Example: [https://10.0.0.1]' })
        .check(
          z.refine((units) => units.length === 1 || units.length === 2, {
            error: 'is not a list of one unit, or of the two units of a pair',
          }),
        ),
      addresses: z.nullish(z.array(addressRange, { error: 'is not a list. Example: [10.0.9.10-10.0.9.99]' })),
      options: z.nullish(
        z.record(
          z.string(),
          z.string({
            error: "is not a text. The API takes texts only: put the value in quotes, such as '61'",
          }),
          { error: 'is not a map of texts' },
        ),
      ),
    },
    { error: 'is missing. It has driver, cluster and units' },
  ),
});

/**
 * Reads the one LoadBalancerDevice of a file. Other fields of it are the controller's.
 * @throws VipnatError DEVICE_SETTINGS_INVALID
 */
export async function readDescription(path: string): Promise<DeviceDescription> {
  const documents = await readYaml(path, '--device');
  const found = documents.filter((one) => (Object(one) as { kind?: unknown }).kind === kind);
  const [document] = found;
  if (found.length !== 1)
    throw invalid(`${path} has ${found.length} objects of the kind ${kind}: it has to have one`);
  const { apiVersion: version } = Object(document) as { apiVersion?: unknown };
  const known = `${apiGroup}/${apiVersion}`;
  if (version !== known) throw invalid(`${path}: apiVersion is not ${known}. Example: apiVersion: ${known}`);
  refuseSlips(document, path);
  const { metadata, spec } = checkShape(schema, document, path);
  return {
    name: metadata.name,
    driver: spec.driver ?? null,
    cluster: spec.cluster,
    units: spec.units,
    addresses: spec.addresses ?? [],
    options: spec.options ?? {},
  };
}

const ownFields = ['driver', 'cluster', 'units', 'addresses', 'options'];

/** Fields of the kind that no command needs. */
const otherFields = ['credentialsSecret', 'targets', 'callsPerSecond'];

/** A field that is nearly one of these is meant to be it. */
function refuseSlips(document: unknown, path: string): void {
  const { spec } = Object(document) as { spec?: unknown };
  for (const field of Object.keys(Object(spec) as object)) {
    if ([...ownFields, ...otherFields].includes(field)) continue;
    const nearest = findNearest(field, [...ownFields, ...otherFields]);
    if (nearest !== null)
      throw invalid(`${path}: spec.${quoteText(field)} is not a field. Did you mean ${nearest}?`);
  }
}
