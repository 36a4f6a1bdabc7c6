import { type OwnImages } from './options.ts';

/** Set by scripts/build, from scripts/image-name. */
declare const VIPNAT_IMAGES: OwnImages | undefined;

/** The images of this build; where no build was made, the newest that were built on this machine. */
export const ownImages: OwnImages =
  typeof VIPNAT_IMAGES === 'undefined'
    ? { vipnat: 'localhost/vipnat:latest', keepalived: 'localhost/vipnat-keepalived:latest' }
    : VIPNAT_IMAGES;
